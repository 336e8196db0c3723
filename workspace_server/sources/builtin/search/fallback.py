"""Searches files in Python alone: the same results as ripgrep, only slower.

A child process that can be killed (`line_matcher.py`) matches their lines. Known
differences to ripgrep: a file with a line of more than 16 Mi characters counts as binary. In regular
expressions: syntax that only one of the two supports and `line_matcher` does not check; what `.` matches in
bytes that are not UTF-8 and at a carriage return inside a line; how often a pattern with `\\b` occurs in a
line (ripgrep 13 counts too few).
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from workspace_server.sources.builtin.search.batches import Batch
from workspace_server.sources.builtin.search.process import run
from workspace_server.sources.builtin.search.query import (
    HEAD_BYTES,
    MAX_COUNTED_LINES,
    BadRegex,
    EngineUnavailable,
    Findings,
    Line,
    TextQuery,
)

_MATCHER: Final = Path(__file__).with_name("line_matcher.py")


async def find_lines(
    folder: Path, query: TextQuery, batch: Batch, *, limit: int, found: Findings[Line]
) -> None:
    """Search files below `folder`: add the first `limit` matching lines, and count all.

    Raises:
        BadRegex: the pattern is not a valid regular expression.
        EngineUnavailable: the process cannot be started, or failed.
    """
    room = max(0, limit - len(found.items))
    most = MAX_COUNTED_LINES + room
    files, stdin = await asyncio.to_thread(_request, folder, query, room, most, batch)
    replies = _Replies(files, found)
    command = [sys.executable, "-I", "-S", "-X", "utf8", str(_MATCHER)]
    ended = await run(command, _MATCHER.parent, replies.feed, stdin=stdin)
    if not replies.done:
        raise EngineUnavailable(f"the line matcher failed: {ended.stderr[-500:]}")
    found.total += replies.count
    if replies.count >= most:
        found.exact = False


def _request(folder: Path, query: TextQuery, keep: int, most: int, batch: Batch) -> tuple[list[str], bytes]:
    files = batch.files()
    request = {
        "pattern": query.text,
        "literal": not query.regex,
        "ignoreCase": query.ignore_case,
        "limit": most,
        "keep": keep,
        "headBytes": HEAD_BYTES,
        "root": os.fsencode(folder).decode("latin-1"),
        "files": [os.fsencode(name).decode("latin-1") for name in files],
    }
    return files, msgspec.json.encode(request)


class _Replies:
    """Parses the output of the matcher."""

    def __init__(self, files: list[str], found: Findings[Line]) -> None:
        self.done = False
        self.count = 0
        self._files = files
        self._found = found
        self._rest = b""

    def feed(self, chunk: bytes) -> bool:
        *ended, self._rest = (self._rest + chunk).split(b"\n")
        for reply in ended:
            self._take(msgspec.json.decode(reply))
        return True

    def _take(self, reply: Any) -> None:
        if isinstance(reply, list):
            index, number, head, longer, start, occurrences = reply
            raw = head.encode("latin-1")
            self._found.items.append(Line(self._files[index], number, raw, longer, start, occurrences))
        elif "error" in reply:
            raise BadRegex(reply["error"], reply["position"])
        else:
            self.done = True
            self.count = reply["count"]
