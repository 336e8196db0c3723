"""What verbs print beside texts (`text.py`): JSON, and failures that say what to do next."""

from __future__ import annotations

import json
import sys
from typing import IO, Any

import click

from manager import exit_codes
from manager.cli.output.text import printable


class Failure(click.ClickException):
    """A verb's failure: why, what to do next, and the exit code. With --json also an object on stdout."""

    def __init__(
        self, message: str, next_step: str, *, exit_code: int = exit_codes.FAILED, reason: str = "failed"
    ) -> None:
        super().__init__(message)
        self.next_step = next_step
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it on the class, and reads it here
        self.reason = reason
        context = click.get_current_context(silent=True)
        self._as_json = bool(context and context.params.get("as_json"))

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it."""
        if self._as_json:
            print_json(
                {"ok": False, "reason": self.reason, "message": self.message, "nextStep": self.next_step}
            )
        click.echo(f"{printable(self.message, lines=True)}; {printable(self.next_step)}", file or sys.stderr)


def print_json(value: object) -> None:
    """Print a value for programs: ASCII only, so that nothing in it can act on a terminal."""
    click.echo(json.dumps(value, indent=2))
