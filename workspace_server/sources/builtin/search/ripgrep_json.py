"""Parses the output of `rg --json` from chunks with bounded memory. Pure.

ripgrep writes a matching line whole, however long it is. Of a message longer than `MAX_MESSAGE` only the
beginning is kept, and the rest is scanned. The scan is safe because a quote inside a JSON string is always
escaped: `"},"line_number":` cannot occur in the text of a line.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from workspace_server.sources.builtin.search.query import HEAD_BYTES, Line, Place

# A message holds a whole line of a file, however long: beyond this its head is enough for the preview.
MAX_MESSAGE: Final = 1024 * 1024
_HEAD_MESSAGE: Final = 64 * 1024
_OVERLAP: Final = 256

_LINE_START: Final = re.compile(
    rb'\{"type":"match","data":\{"path":(\{"(?:text|bytes)":"(?:[^"\\]|\\.)*"\}),"lines":\{"(text|bytes)":"'
)
_STRING_PART: Final = re.compile(rb'(?:[^"\\]|\\u[0-9A-Fa-f]{4}|\\[^u])*')
_LINE_END: Final = re.compile(rb'"\},"line_number":(\d+),"absolute_offset":\d+,"submatches":\[')
_SUBMATCH: Final = re.compile(rb',"start":(\d+),"end":(\d+)\}')


class _LongMatch:
    """Scans a match message that is too long to keep."""

    def __init__(self, head: bytes) -> None:
        self._head = head[:_HEAD_MESSAGE]
        self._unscanned = b""
        self._number: int | None = None
        self._start: int | None = None
        self._occurrences = 0
        self.feed(head)

    def feed(self, data: bytes) -> None:
        """Scan the next bytes of the message."""
        self._unscanned += data
        if self._number is None:
            line_end = _LINE_END.search(self._unscanned)
            if line_end is None:
                self._unscanned = self._unscanned[-_OVERLAP:]
                return
            self._number = int(line_end[1])
            self._unscanned = self._unscanned[line_end.end() :]
        end_of_last = 0
        for submatch in _SUBMATCH.finditer(self._unscanned):
            start, end = int(submatch[1]), int(submatch[2])
            self._start = start if self._start is None else self._start
            self._occurrences += start != end
            end_of_last = submatch.end()
        self._unscanned = self._unscanned[max(end_of_last, len(self._unscanned) - _OVERLAP) :]

    def line(self) -> Line | None:
        """The line, after the complete message was fed; None if the message is not a match."""
        opening = _LINE_START.match(self._head)
        if opening is None or self._number is None:
            return None
        part = _STRING_PART.match(self._head, opening.end())
        raw = part[0] if part else b""
        if opening[2] == b"bytes":
            text = base64.b64decode(raw[: len(raw) // 4 * 4])
        else:
            text = msgspec.json.decode('"' + raw.decode("utf-8", "ignore") + '"', type=str).encode()
        path = _name(msgspec.json.decode(opening[1]))
        return Line(path, self._number, text[:HEAD_BYTES], True, self._start or 0, max(1, self._occurrences))


class RipgrepJson:
    """Collects matching lines from the output of `rg --json`, file by file.

    The lines of a file are dropped if its end shows that it is binary. Of all others the first `keep` are
    kept, by the place of their file, which is what `place_of` returns for its name; None: it does not count.

    Attributes:
        keep: number of lines that are kept.
        finished: number of lines in files that ripgrep has finished.
        summary: True after the final message of ripgrep; an exit code 2 without that message means that the
            search did not start.
    """

    def __init__(self, keep: int, place_of: Callable[[str], Place | None]) -> None:
        self.summary = False
        self._lines: list[tuple[Place, Line]] = []
        self.finished = 0
        self._pending: list[tuple[Place, Line]] = []
        self._pending_count = 0
        self.keep = keep
        self._place_of = place_of
        self._buffer = bytearray()
        self._long: _LongMatch | None = None

    @property
    def count(self) -> int:
        """How many lines there are so far, with those that are not kept."""
        return self.finished + self._pending_count

    def in_order(self) -> list[Line]:
        """The lines that are kept, with those of a file that ripgrep has not finished."""
        return [line for _, line in self._first(self._lines + self._pending)]

    def _first(self, lines: list[tuple[Place, Line]]) -> list[tuple[Place, Line]]:
        return sorted(lines, key=lambda each: (each[0], each[1].number))[: self.keep]

    def feed(self, data: bytes) -> None:
        """Parse the next chunk of output."""
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._feed_part(part)
            self._end_message()
        self._feed_part(rest)

    def _feed_part(self, part: bytes) -> None:
        if self._long is not None:
            self._long.feed(part)
            return
        self._buffer += part
        if len(self._buffer) > MAX_MESSAGE:
            self._long = _LongMatch(bytes(self._buffer))
            self._buffer.clear()

    def _end_message(self) -> None:
        if self._long is not None:
            line = self._long.line()
            self._long = None
            self._add(line)
        elif self._buffer:
            message = msgspec.json.decode(self._buffer)
            self._buffer.clear()
            self._handle(message["type"], message["data"])

    def _handle(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "match":
            self._add(_line(data))
        elif kind == "end":
            if data["binary_offset"] is None:
                self.finished += self._pending_count
                self._lines += self._pending
                if len(self._lines) > 2 * self.keep:
                    self._lines = self._first(self._lines)
            self._pending, self._pending_count = [], 0
        elif kind == "summary":
            self.summary = True

    def _add(self, line: Line | None) -> None:
        place = None if line is None else self._place_of(line.relative)
        if line is None or place is None:
            return
        self._pending_count += 1
        if len(self._pending) < self.keep:
            self._pending.append((place, line))


def _line(data: dict[str, Any]) -> Line:
    text = _content(data["lines"])
    bare = text.removesuffix(b"\n").removesuffix(b"\r")
    matches = data["submatches"]
    filled = sum(match["start"] != match["end"] for match in matches)
    start = matches[0]["start"] if matches else 0
    head, longer = bare[:HEAD_BYTES], len(bare) > HEAD_BYTES
    return Line(_name(data["path"]), data["line_number"], head, longer, start, max(1, filled))


def _name(value: dict[str, str]) -> str:
    name = os.fsdecode(_content(value)).replace(os.sep, "/")
    return name.removeprefix("./")


def _content(value: dict[str, str]) -> bytes:
    if "text" in value:
        return value["text"].encode()
    try:
        return base64.b64decode(value["bytes"])
    except binascii.Error:
        return b""
