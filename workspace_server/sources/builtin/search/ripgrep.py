"""Searches files with ripgrep.

ripgrep gets the files as arguments and does not walk: which files count is decided in one place, and ripgrep
searches them in parallel. So its results come in any order, and are put in order here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from workspace_server.sources.builtin.search.process import Exit, run
from workspace_server.sources.builtin.search.programs import find_program
from workspace_server.sources.builtin.search.query import (
    MAX_COUNTED_LINES,
    Findings,
    Line,
    TextQuery,
)
from workspace_server.sources.builtin.search.ripgrep_errors import raise_for
from workspace_server.sources.builtin.search.ripgrep_json import RipgrepJson
from workspace_server.workspace import Workspace

_ALWAYS: Final = (
    *("--no-config", "--no-messages", "--color=never", "--no-ignore", "--hidden"),
    *("--json", "--crlf", "--no-mmap"),
)


def find_ripgrep(setting: str | None, workspace: Workspace, environ: Mapping[str, str]) -> str | None:
    """Path of ripgrep: the setting ("" disables it), else from PATH, else beside our interpreter. Blocks.

    A program inside the workspace is never used, even if it is on PATH, because it is not trusted.
    """
    if setting is not None:
        return setting or None
    return find_program("rg", workspace, environ, Path(sys.executable).parent)


async def find_lines(
    program: str, folder: Path, query: TextQuery, files: list[str], *, limit: int, found: Findings[Line]
) -> None:
    """Search `files`, paths relative to `folder`: add the first `limit` matching lines, and count all.

    Without files only the pattern is checked.

    Raises:
        BadRegex: the pattern is not a valid regular expression.
        EngineUnavailable: ripgrep cannot run this search.
    """
    place_of = _places(files)
    room = max(0, limit - len(found.items))
    most = MAX_COUNTED_LINES + room
    kept = len(found.items)
    reader = RipgrepJson(room, place_of)
    command = _command(program, query)
    failed = await _run(
        [*command, "--", *(files or [os.devnull])], folder, reader, found, lambda: reader.count < most
    )
    if failed is not None:
        raise_for(failed.stderr, query)
    if reader.count < most:
        found.total += reader.count
        return
    found.exact = False
    if room:
        # too many to sort: one thread finds them in order, and ends where there are enough
        del found.items[kept:]
        ordered = RipgrepJson(room, place_of)
        single = [*command, "-j1", "--", *files]
        await _run(single, folder, ordered, found, lambda: ordered.finished < room)
    found.total += most


def _places(files: list[str]) -> Callable[[str], int | None]:
    """A look-up of the place of a file, in a table that is only made if there is a match."""
    table: dict[str, int] = {}

    def place_of(name: str) -> int | None:
        if not table:
            table.update(zip(files, range(len(files)), strict=True))
        return table.get(name)

    return place_of


def _command(program: str, query: TextQuery) -> list[str]:
    case = "-i" if query.ignore_case else "-s"
    return [program, *_ALWAYS, case, *([] if query.regex else ["-F"]), "-e", query.text]


async def _run(
    command: list[str], folder: Path, reader: RipgrepJson, found: Findings[Line], goes_on: Callable[[], bool]
) -> Exit | None:
    """Run ripgrep while `goes_on()`, add the lines that `reader` keeps; None unless it could not search."""

    def consume(chunk: bytes) -> bool:
        reader.feed(chunk)
        return goes_on()

    try:
        ended = await run(command, folder, consume)
    finally:
        found.items += reader.in_order()
    return ended if ended.code is not None and not reader.summary else None
