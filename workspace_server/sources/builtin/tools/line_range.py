"""Collects a range of lines while a text streams by, so that a large file costs time but no memory. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LineRange:
    """Which lines to keep: from `start` to `end` (None: the last), and at most `max_bytes` of them.

    `fit`: `max_bytes` is the size of a page, and was not chosen by the caller.
    """

    start: int
    end: int | None
    max_bytes: int
    fit: bool = False


@dataclass(slots=True)
class LineCollector:
    """Collects the requested lines of a text from chunks in an ASCII-compatible encoding."""

    wanted: LineRange
    kept: bytearray = field(default_factory=bytearray)
    ended: int = 0
    last_byte: int = 0x0A
    full: bool = False

    def feed(self, chunk: bytes) -> None:
        """Count the lines of the next chunk, and keep the requested ones."""
        if not chunk:
            return
        at = 0
        while not self._past_end and at < len(chunk):
            newline = chunk.find(b"\n", at)
            stop = newline + 1 if newline >= 0 else len(chunk)
            if self.ended + 1 >= self.wanted.start:
                self._keep(chunk[at:stop])
            self.ended += newline >= 0
            at = stop
        self.ended += chunk.count(b"\n", at)
        self.last_byte = chunk[-1]

    def _keep(self, piece: bytes) -> None:
        room = self.wanted.max_bytes - len(self.kept)
        self.full = self.full or len(piece) > room
        self.kept += piece[:room]
        if self.full and b"\n" in self.kept:  # the client reads on at the next line, so keep only whole lines
            del self.kept[self.kept.rindex(b"\n") + 1 :]

    @property
    def _past_end(self) -> bool:
        return self.full or (self.wanted.end is not None and self.ended >= self.wanted.end)

    @property
    def end(self) -> int:
        """Number of the last kept line."""
        lines = self.kept.count(b"\n") + (bool(self.kept) and self.kept[-1] != 0x0A)
        return min(self.wanted.start + max(lines, 1) - 1, self.total)

    @property
    def total(self) -> int:
        """Number of lines in the file; a line end at the end of the file starts no new line."""
        return self.ended + (self.last_byte != 0x0A)
