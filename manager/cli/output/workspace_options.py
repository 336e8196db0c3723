"""What verbs about a folder's workspace share: their options, and how what is wrong is told at the end.

What is wrong goes to standard error, so that a list can be piped on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from host.printable import printable
from manager.cli.output.responses import TRUST_PENDING, objects, pending, worded

MAX_ISSUES: Final = 30
Command = TypeVar("Command", bound=Callable[..., object])


def json_option(command: Command) -> Command:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def cwd_option(command: Command) -> Command:
    """`--cwd`, before or after a further verb; what it says is the context's object."""
    return click.option(
        "--cwd",
        type=click.Path(path_type=Path),
        expose_value=False,
        is_eager=True,
        callback=_remember,
        help="A folder in the workspace; default: the current folder.",
    )(command)


def _remember(ctx: click.Context, _: click.Parameter, folder: Path | None) -> None:
    if folder is not None:
        ctx.obj = folder


def say_issues(answer: Mapping[str, Any]) -> None:
    """Print the issues of an answer: each once, errors first, what waits for trust with its command last."""
    lines = list(dict.fromkeys(_lines(objects(answer, "issues"))))
    for line in lines[:MAX_ISSUES]:
        click.echo(printable(line), err=True)
    if len(lines) > MAX_ISSUES:
        click.echo(f"… and {len(lines) - MAX_ISSUES} more; see all of them with --json", err=True)
    for command, messages in pending(answer).items():
        click.echo(f"\nWaiting for your trust ({len(messages)}):", err=True)
        for message in messages[:MAX_ISSUES]:
            click.echo(f"  {printable(message)}", err=True)
        if len(messages) > MAX_ISSUES:
            click.echo(f"  … and {len(messages) - MAX_ISSUES} more", err=True)
        click.echo(f"look at it, and let it run, with: {printable(command)}", err=True)


def _lines(issues: list[dict[str, Any]]) -> Iterator[str]:
    for issue in sorted(issues, key=lambda one: one.get("level") != "error"):
        if issue.get("code") != TRUST_PENDING:
            yield f"{issue.get('level')}: {worded(issue)}"
