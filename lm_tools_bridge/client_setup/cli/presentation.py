"""Shows clients, entries and changes of files on a terminal, and as values for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final

import click

from lm_tools_bridge.client_setup.change import ENTRY_NAME
from lm_tools_bridge.client_setup.clients import Client
from lm_tools_bridge.client_setup.entry_upgrade import Entry
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.client_setup.secret_texts import masked
from lm_tools_bridge.client_setup.workbench import Overview
from lm_tools_bridge.terminal.views import Column, Kind, Table
from lm_tools_bridge.text.printable import printable

_LONGEST_LINE: Final = 2000
_LONGEST_PRIVATE_LINE: Final = 400
_CONFIGURED: Final = {"current": "yes", "missing": "no", "outdated": "outdated", "not_ours": "other"}
_COLUMNS: Final = (
    Column("CLIENT", Kind.NAME),
    Column("FOUND", Kind.STATE),
    Column("ENTRY", Kind.STATE),
    Column("FILE", Kind.FOLDER),
)
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


def client_table(rows: list[tuple[Client, Overview]]) -> Table:
    """The table of clients."""
    cells = [
        (client.id, "yes" if overview.installed else "no", configured(overview), short(overview.file))
        for client, overview in rows
    ]
    return Table(_COLUMNS, cells)


def entry_text(client: Client, entry: Entry) -> str:
    """An entry as it stands in the client's file."""
    if client.form.is_yaml:
        from lm_tools_bridge.client_setup.editing.yaml_servers import text_of

        return text_of(client.form.container, ENTRY_NAME, entry)
    if client.form.dialect is None:
        from lm_tools_bridge.client_setup.editing.toml_edit import with_table

        return str(with_table("", client.form.path, entry)).rstrip()
    return json.dumps({client.form.container: {ENTRY_NAME: entry}}, indent=2, ensure_ascii=False)


def diff_lines(
    file: Path, before: bytes | None, after: bytes | None, *, secrets: Collection[str] | None = None
) -> Iterator[str]:
    """A unified diff of a file; None stands for no file.

    With `secrets`, these are masked, and neither unchanged nor very long lines are shown: they may have more.
    """
    name = short(file)
    names = (name if before is not None else "/dev/null", name if after is not None else "/dev/null")
    context = 3 if secrets is None else 0
    for line in unified_diff(_lines(before), _lines(after), *names, lineterm="", n=context):
        visible = line.removesuffix("\r")
        if secrets is not None:
            visible = masked(visible, secrets)
            if len(line) > _LONGEST_PRIVATE_LINE:
                visible = f"{line[0]} (a line of {len(line) - 1} characters, which is not shown)"
        yield printable(visible, lines=True, width=_LONGEST_LINE)


def show_diff(
    file: Path, before: bytes | None, after: bytes | None, *, secrets: Collection[str] | None = None
) -> None:
    """Print a unified diff as `diff_lines` makes it, in colours on a terminal."""
    for number, line in enumerate(diff_lines(file, before, after, secrets=secrets)):
        head = number < 2
        fg = None if head else _COLOURS.get(line[:1])
        click.echo(click.style(line, fg=fg, bold=head or None) if fg or head else line)


def _lines(content: bytes | None) -> list[str]:
    lines = (content or b"").decode("utf-8", "replace").split("\n")
    last = lines.pop()
    # as diff does it: a last line without a line feed differs from one with it
    return [*lines, f"{last}  (no line feed at the end)"] if last else lines
