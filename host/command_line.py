"""What the verbs of both programs share on the command line: failures with a next step, and JSON output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import IO, Any, TypeVar

import click

from host.printable import printable

Command = TypeVar("Command", bound=Callable[..., object])


class Failure(click.ClickException):
    """A verb failed: what happened, the next step, the exit code. With --json also an object on stdout.

    Args:
        reason: a word for programs.
    """

    def __init__(self, message: str, next_step: str, *, exit_code: int = 1, reason: str = "failed") -> None:
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
        text = f"{printable(self.message, lines=True)}\nNext step: {printable(self.next_step)}"
        click.echo(text, file or sys.stderr)


def print_json(value: object) -> None:
    """Print a value for programs: ASCII only, so that nothing in it can act on a terminal."""
    click.echo(json.dumps(value, indent=2))


def json_option(command: Command) -> Command:
    """The option `--json`, passed as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)
