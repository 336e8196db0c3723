"""Searches in Python alone: the same results as ripgrep, only slower.

Our own walk lists the files. A child process that can be killed (`line_matcher.py`) matches their lines in
batches, so that memory use and the time to the first result do not depend on the size of the tree. Known
differences to ripgrep: a file with a line of more than 16 Mi characters counts as binary. In regular
expressions: syntax that only one of the two supports and `line_matcher` does not check; what `.` matches in
bytes that are not UTF-8 and at a carriage return inside a line; how often a pattern with `\\b` occurs in a
line (ripgrep 13 counts too few).
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from workspace_server.sources.builtin.search.process import run
from workspace_server.sources.builtin.search.query import (
    HEAD_BYTES,
    BadRegex,
    EngineUnavailable,
    Findings,
    Line,
    Scope,
    TextQuery,
)

BATCH: Final = 10_000
"""Number of files per matcher process."""
_MATCHER: Final = Path(__file__).with_name("line_matcher.py")


async def list_files(scope: Scope, limit: int, found: Findings[str]) -> None:
    """Add the first `limit` wanted files to `found`, relative to the folder, in walk order."""
    stop = threading.Event()
    try:
        await asyncio.to_thread(_list, scope, limit, found, stop)
    finally:
        stop.set()


def _list(scope: Scope, limit: int, found: Findings[str], stop: threading.Event) -> None:
    for name in islice(_names(scope, stop), limit):
        found.items.append(name)  # one by one, so that the results found before the deadline are kept


def _names(scope: Scope, stop: threading.Event) -> Iterator[str]:
    return filter(scope.wanted, scope.tree.files(stop.is_set))


async def find_lines(scope: Scope, query: TextQuery, limit: int, found: Findings[Line]) -> None:
    """Add the first `limit` matching lines of wanted files to `found`, in walk order, then by line.

    Raises:
        BadRegex: the pattern is not a valid regular expression.
    """
    stop = threading.Event()
    names = _names(scope, stop)
    try:
        while True:  # at least once, to check the pattern even if there are no files
            files = await asyncio.to_thread(lambda: list(islice(names, BATCH)))
            await _match(scope, query, limit - len(found.items), files, found)
            if len(files) < BATCH or len(found.items) >= limit:
                return
    finally:
        stop.set()


async def _match(scope: Scope, query: TextQuery, limit: int, files: list[str], found: Findings[Line]) -> None:
    stdin = await asyncio.to_thread(_request, scope, query, limit, files)
    replies = _Replies(files, found)
    command = [sys.executable, "-I", "-S", "-X", "utf8", str(_MATCHER)]
    ended = await run(command, _MATCHER.parent, replies.feed, stdin=stdin)
    if not replies.done:
        raise EngineUnavailable(f"the line matcher failed: {ended.stderr[-500:]}")


def _request(scope: Scope, query: TextQuery, limit: int, files: list[str]) -> bytes:
    request = {
        "pattern": query.text,
        "literal": not query.regex,
        "ignoreCase": query.ignore_case,
        "limit": limit,
        "headBytes": HEAD_BYTES,
        "root": os.fsencode(scope.tree.folder.path).decode("latin-1"),
        "files": [os.fsencode(name).decode("latin-1") for name in files],
    }
    return msgspec.json.encode(request)


class _Replies:
    """Parses the output of the matcher."""

    def __init__(self, files: list[str], found: Findings[Line]) -> None:
        self.done = False
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
