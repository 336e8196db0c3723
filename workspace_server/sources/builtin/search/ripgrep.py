"""Searches files with ripgrep.

ripgrep gets files as arguments, or a directory in place of all files in it; or it walks through the whole
folder. Which files count is decided in one place, the list: what ripgrep finds in others, for example in new
ones, does not count. It searches in parallel, so its results come in any order, and are put in order here.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NoReturn

from workspace_server.sources.builtin.search.batches import Batch, WholeTree
from workspace_server.sources.builtin.search.process import Exit, find_program, run
from workspace_server.sources.builtin.search.query import (
    MAX_COUNTED_LINES,
    BadRegex,
    EngineUnavailable,
    Findings,
    Line,
    TextQuery,
)
from workspace_server.sources.builtin.search.ripgrep_json import RipgrepJson
from workspace_server.workspace import Workspace

_ALWAYS: Final = (
    *("--no-config", "--no-messages", "--color=never", "--no-ignore", "--hidden"),
    *("--json", "--crlf", "--no-mmap"),
)
_STANDARD_INPUT: Final = "/dev/stdin"
CAN_WALK: Final = sys.platform != "win32"
"""Whether `find_lines_of_tree` works on this system."""


def find_ripgrep(setting: str | None, workspace: Workspace, environ: Mapping[str, str]) -> str | None:
    """Path of ripgrep: the setting ("" disables it), else from PATH, else beside our interpreter. Blocks.

    A program inside the workspace is never used, even if it is on PATH, because it is not trusted.
    """
    if setting is not None:
        return setting or None
    return find_program("rg", workspace, environ, Path(sys.executable).parent)


async def find_lines(
    program: str, folder: Path, query: TextQuery, batch: Batch, *, limit: int, found: Findings[Line]
) -> None:
    """Search files below `folder`: add the first `limit` matching lines, and count all.

    Without files only the pattern is checked.

    Raises:
        BadRegex: the pattern is not a valid regular expression.
        EngineUnavailable: ripgrep cannot run this search.
    """
    room = max(0, limit - len(found.items))
    reader = RipgrepJson(room, batch.place_of)
    command = [*_command(program, query), "--max-depth=1"]
    arguments = ["--", *(batch.arguments() or [os.devnull])]
    if await _counted([*command, *arguments], folder, query, reader, found=found):
        return
    if room:
        # too many to sort: one thread finds them in order, and ends where there are enough
        ordered = RipgrepJson(room, batch.place_of)
        single = [*command, "--sort=path", *arguments]
        await _run(single, folder, ordered, found, lambda: ordered.finished < room)
    found.total += MAX_COUNTED_LINES + room
    found.exact = False


async def find_lines_of_tree(
    program: str, folder: Path, query: TextQuery, tree: WholeTree, *, limit: int, found: Findings[Line]
) -> bool:
    """Search the files of a whole tree: add the first `limit` matching lines, and count all.

    False if there are too many lines to tell which are the first; then nothing is added.

    Raises:
        EngineUnavailable: ripgrep cannot run this search.
    """
    room = max(0, limit - len(found.items))
    reader = RipgrepJson(room, tree.place_of)
    command = [*_command(program, query), f"--ignore-file={_STANDARD_INPUT}", "--", *tree.arguments()]
    if await _counted(command, folder, query, reader, found=found, stdin=tree.ignore_file()):
        return True
    if room:
        return False
    found.total += MAX_COUNTED_LINES
    found.exact = False
    return True


def _command(program: str, query: TextQuery) -> list[str]:
    case = "-i" if query.ignore_case else "-s"
    return [program, *_ALWAYS, case, *([] if query.regex else ["-F"]), "-e", query.text]


async def _counted(
    command: list[str],
    folder: Path,
    query: TextQuery,
    reader: RipgrepJson,
    *,
    found: Findings[Line],
    stdin: bytes | None = None,
) -> bool:
    """Run ripgrep and add what it finds; False, and nothing is added, if the lines are too many."""
    earlier_count, most = len(found.items), MAX_COUNTED_LINES + reader.keep
    failed = await _run(command, folder, reader, found, lambda: reader.count < most, stdin=stdin)
    if failed is not None:
        raise_for(failed.stderr, query)
    if reader.count >= most:
        del found.items[earlier_count:]
        return False
    found.total += reader.count
    return True


async def _run(
    command: list[str],
    folder: Path,
    reader: RipgrepJson,
    found: Findings[Line],
    goes_on: Callable[[], bool],
    *,
    stdin: bytes | None = None,
) -> Exit | None:
    """Run ripgrep while `goes_on()`, add the lines that `reader` keeps; None unless it could not search."""

    def consume(chunk: bytes) -> bool:
        reader.feed(chunk)
        return goes_on()

    try:
        ended = await run(command, folder, consume, stdin=stdin)
    finally:
        found.items += reader.in_order()
    return ended if ended.code is not None and not reader.summary else None


_WRAPPER: Final = "(?:"
_PART: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]?|.", re.DOTALL)


def raise_for(stderr: str, query: TextQuery) -> NoReturn:
    """Raise what the messages of ripgrep mean.

    Raises:
        BadRegex: the query is not a valid regular expression.
        EngineUnavailable: anything else.
    """
    stderr = stderr.replace("\r\n", "\n")
    parse = re.search(r"regex parse error:\n    (.*)\n    ( *)\^.*\n(?:error: )?(.*)", stderr)
    if query.regex and parse:
        raise BadRegex(parse[3], _position(parse[1], len(parse[2]), query.text))
    literal = re.search(r"the literal .* is not allowed in a regex", stderr)
    if query.regex and literal:
        at = re.search(r"(?<!\\)(?:\\\\)*\\[nr]", query.text)
        raise BadRegex(
            "a line end cannot be matched; lines are searched one by one", at.end() - 2 if at else None
        )
    if query.regex and re.search("regex|size limit|nest", stderr, re.IGNORECASE):
        raise BadRegex(" ".join(stderr.split())[:500], None)
    raise EngineUnavailable(stderr)


def _position(message: str, marked: int, text: str) -> int | None:
    """The position in `text` of the character that is marked in `shown`, which may be `(?:text)`."""
    if message != f"{_WRAPPER}{text})":
        return marked
    if len(_WRAPPER) <= marked < len(_WRAPPER) + len(text):
        return marked - len(_WRAPPER)
    # a group of the query has closed the wrapper, or was closed by its end, so that the wrapper is marked
    opened: list[int] = []
    for part in _PART.finditer(text):
        if part[0] == "(":
            opened.append(part.start())
        elif part[0] == ")":
            if not opened:
                return part.start()
            opened.pop()
    return opened[-1] if opened else None
