"""Shows clients, entries and changes of files on a terminal, and as values for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final

import click

from host.printable import printable
from manager.cli.output.text import table
from manager.client_files.change import ENTRY_NAME, Entry
from manager.client_files.clients import Client
from manager.client_files.refusals import Refusal
from manager.client_files.workbench import Overview

_LONGEST_LINE: Final = 2000
_CONFIGURED: Final = {"current": "yes", "missing": "no", "outdated": "outdated", "not_ours": "other"}
_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


def short(path: Path) -> str:
    """A path, with `~` for the home folder."""
    home = os.environ.get("HOME", "")
    text = str(path)
    return f"~{text[len(home) :]}" if len(home) > 1 and text.startswith(f"{home}/") else text


def configured(overview: Overview) -> str:
    """The word for whether a client is configured."""
    return "unknown" if overview.state is None else _CONFIGURED[overview.state]


def as_json(client: Client, overview: Overview) -> dict[str, Any]:
    """A client for programs."""
    refusal = overview.refusal
    return {
        "client": client.id,
        "title": client.title,
        "installed": overview.installed,
        "configured": configured(overview),
        "file": str(overview.file),
        "problem": None if refusal is None else refusal_json(refusal),
        "undo": overview.can_undo,
    }


def refusal_json(refusal: Refusal) -> dict[str, Any]:
    """A refusal for programs."""
    return {
        "reason": refusal.reason,
        "message": refusal.message,
        "nextStep": refusal.next_step,
        "line": refusal.line,
    }


def client_table(rows: list[tuple[Client, Overview]]) -> str:
    """The table of clients."""
    heads = ("CLIENT", "FOUND", "CONFIGURED", "FILE")
    cells = [
        (client.id, "yes" if one.installed else "no", configured(one), short(one.file))
        for client, one in rows
    ]
    return table(heads, cells, flexible=("FILE",))


def entry_text(client: Client, entry: Entry) -> str:
    """An entry as it stands in the client's file."""
    if client.form.dialect is None:
        from manager.client_files.toml_edit import with_table  # noqa: PLC0415 - only for this

        return str(with_table("", client.form.path, entry)).rstrip()
    return json.dumps({client.form.container: {ENTRY_NAME: entry}}, indent=2, ensure_ascii=False)


def diff_lines(file: Path, before: bytes | None, after: bytes | None) -> Iterator[str]:
    """A unified diff of a file; None stands for no file."""
    name = short(file)
    names = (name if before is not None else "/dev/null", name if after is not None else "/dev/null")
    for line in unified_diff(_lines(before), _lines(after), *names, lineterm=""):
        yield printable(line.removesuffix("\r"), lines=True, width=_LONGEST_LINE)


def show_diff(file: Path, before: bytes | None, after: bytes | None) -> None:
    """Print a unified diff, in colours on a terminal."""
    colour = False if os.environ.get("NO_COLOR") else None  # None: as the terminal is
    for number, line in enumerate(diff_lines(file, before, after)):
        head = number < 2
        fg = None if head else _COLOURS.get(line[:1])
        click.echo(click.style(line, fg=fg, bold=head or None) if fg or head else line, color=colour)


def _lines(content: bytes | None) -> list[str]:
    lines = (content or b"").decode("utf-8", "replace").split("\n")
    last = lines.pop()
    # as diff does it: a last line without a line feed differs from one with it
    return [*lines, f"{last}  (no line feed at the end)"] if last else lines
