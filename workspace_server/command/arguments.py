"""What all verbs share: the folders they are given, and how they say no."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import click

from workspace_server.trust.printable import printable

Command = TypeVar("Command", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are: the user's folders, and the manager's PATH where it is known."""

    config_dir: Path
    state_dir: Path
    path: str | None = None


class Refused(click.ClickException):
    """Why a verb did not do it, and the next step for a person. With --json also an object on stdout."""

    exit_code = 1

    def __init__(self, message: str, next_step: str, *, reason: str = "failed") -> None:
        super().__init__(message)
        self.next_step = next_step
        self.reason = reason
        context = click.get_current_context(silent=True)
        self._as_json = bool(context and context.params.get("as_json"))

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it."""
        if self._as_json:
            print_json(
                {"ok": False, "reason": self.reason, "message": self.message, "nextStep": self.next_step}
            )
        text = f"{printable(self.message)}\nNext step: {printable(self.next_step)}"
        click.echo(text, file or sys.stderr)


def print_json(value: object) -> None:
    """Print a value for programs: ASCII only, so that nothing in it can act on a terminal."""
    click.echo(json.dumps(value, indent=2))


def json_option(command: Command) -> Command:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def real_folder(root: Path) -> Path:
    """An existing folder without links in its path.

    Raises:
        Refused: there is none.
    """
    try:
        real = root.resolve(strict=True)
        if real.is_dir():
            return real
    except (OSError, RuntimeError):
        pass
    raise Refused(f"{root} is not a folder", "give the folder of a project", reason="no_folder")
