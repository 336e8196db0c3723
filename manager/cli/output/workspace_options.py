"""Defines the options of verbs about a workspace, finds the source that a person named, and prints issues.

Issues go to standard error, so that a list on standard output can be piped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from lm_tools_bridge.terminal.command_line import Command, Failure, say
from lm_tools_bridge.terminal.views import Note, Tone
from lm_tools_bridge.text.near_names import did_you_mean
from manager.status_reading import TRUST_PENDING, issue_text, objects, pending


def source_id(name: str, sources: Sequence[Mapping[str, Any]]) -> str:
    """The id of a source that is named by its id or by the part after the colon.

    Args:
        name: what the person wrote.
        sources: the workspace's, as its server describes them.

    Raises:
        Failure: no source has this name, or several have.
    """
    ids = [str(source.get("id")) for source in sources]
    fitting = [identity for identity in ids if identity == name] or [
        identity for identity in ids if identity.partition(":")[2] == name
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise Failure(f"{name} matches more than one source", f"name one of {', '.join(fitting)}")
    short = [identity.rpartition(":")[2] for identity in ids]
    text = f"this workspace has no source named {name}{did_you_mean(name, (*ids, *short))}"
    raise Failure(text, f"it has {', '.join(ids)}", reason="unknown_source")


# About a screen; `--json` has all of them.
MAX_ISSUES: Final = 30


TWO_FOLDERS: Final = "the folder is given twice: as an argument and with --cwd"


def cwd_option(command: Command) -> Command:
    """Adds the option `--cwd`, before or after a subcommand; its value becomes `ctx.obj`."""
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


def print_issues(answer: Mapping[str, Any]) -> None:
    """Print the issues of an answer: without duplicates, errors first, items that wait for trust last."""
    lines = list(dict.fromkeys(_lines(objects(answer, "issues"))))
    for line in lines[:MAX_ISSUES]:
        say(Note(line, Tone.BAD if line.startswith("error") else Tone.WARN), err=True)
    if len(lines) > MAX_ISSUES:
        say(f"… and {len(lines) - MAX_ISSUES} more; all of them with --json", err=True)
    for command, messages in pending(answer).items():
        say("", Note(f"Waiting for your trust ({len(messages)}):", Tone.WARN), err=True)
        say(*(f"  {message}" for message in messages[:MAX_ISSUES]), err=True)
        if len(messages) > MAX_ISSUES:
            say(f"  … and {len(messages) - MAX_ISSUES} more", err=True)
        say(f"review and allow with: {command}", err=True)


def _lines(issues: list[dict[str, Any]]) -> Iterator[str]:
    for issue in sorted(issues, key=lambda entry: entry.get("level") != "error"):
        if issue.get("code") != TRUST_PENDING:
            yield f"{issue.get('level')}: {issue_text(issue)}"
