"""Keeps the end of a child's standard error, and passes its lines to a log at a bounded rate.

Bytes are kept raw and cleaned when they are read. `pipes.py` reads the pipe.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

from workspace_server.results import clean_text

CAPACITY: Final = 64 * 1024
MAX_LINE: Final = 2000
LINES_PER_S: Final = 100
_MAX_LINE_BYTES: Final = 4 * MAX_LINE
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


class StderrTail:
    """The last 64 KiB of standard error.

    Attributes:
        received: how many bytes came in all.
    """

    def __init__(self) -> None:
        self.received = 0
        self._data = bytearray()
        self._cut = False

    def feed(self, chunk: bytes) -> None:
        """Add bytes; the oldest are dropped."""
        self.received += len(chunk)
        self._data += chunk
        surplus = len(self._data) - CAPACITY
        if surplus > 0:
            del self._data[:surplus]
            self._cut = True

    def lines(self, n: int = 20) -> list[str]:
        """The last `n` non-blank lines: cleaned, each at most 2,000 characters."""
        raw = _LINE_END.split(bytes(self._data))
        if self._cut:  # the first line lacks its beginning; it is kept only if there is no other
            raw[0] = raw[0][-MAX_LINE:] if len(raw) == 1 else b""
        lines: list[str] = []
        for piece in reversed(raw):
            if len(lines) >= n:
                break
            line = _clean(piece)
            if line:
                lines.append(line)
        return lines[::-1]

    def text(self, limit: int) -> str:
        """All kept lines, cut to the last `limit` characters."""
        text = "\n".join(self.lines(CAPACITY))
        return text[-limit:] if limit > 0 else ""


class LineLimiter:
    """Passes whole lines to `listener`, at most 100 per second, and reports how many were left out."""

    def __init__(self, listener: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._listener = listener
        self._clock = clock
        self._partial = bytearray()
        self._window = clock()
        self._given = 0
        self._dropped = 0

    def feed(self, chunk: bytes) -> None:
        """Add bytes; lines are cut after 2,000 characters."""
        self._renew()
        start = 0
        while self._given < LINES_PER_S:
            end = chunk.find(b"\n", start)
            if end < 0:
                self._extend(chunk[start:])
                return
            self._extend(chunk[start:end])
            self._give()
            start = end + 1
        self._drop(chunk[start:])

    def end(self) -> None:
        """Pass on the last, unterminated line, and the number of lines left out."""
        if self._partial and self._given < LINES_PER_S:
            self._give()
        self._report()

    def _renew(self) -> None:
        now = self._clock()
        if now - self._window >= 1:
            self._window, self._given = now, 0
            self._report()

    def _report(self) -> None:
        if self._dropped:
            self._given += 1
            dropped, self._dropped = self._dropped, 0
            self._listener(f"[{dropped} lines left out]")

    def _extend(self, piece: bytes) -> None:
        self._partial += piece[: max(0, _MAX_LINE_BYTES - len(self._partial))]

    def _drop(self, chunk: bytes) -> None:
        ends = chunk.count(b"\n")
        if ends:
            self._dropped += ends
            self._partial.clear()
        self._extend(chunk[chunk.rfind(b"\n") + 1 :])

    def _give(self) -> None:
        self._given += 1  # blank lines count, too: they cost as much
        line = _clean(bytes(self._partial))
        self._partial.clear()
        if line:
            self._listener(line)


def _clean(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    return clean_text(text.replace("\r", " ")).rstrip()[:MAX_LINE]
