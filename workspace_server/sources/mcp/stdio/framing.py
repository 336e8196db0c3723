"""Splits a byte stream into lines, in linear time however the bytes arrive. Pure."""

from __future__ import annotations

from typing import Final

MAX_LINE: Final = 32 * 1024 * 1024


class Lines:
    """Collects the bytes of one stream.

    `overflowed`: a line went over the cap; its bytes are forgotten, and nothing after it is taken.
    """

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self.overflowed = False
        self._max_line = max_line
        self._partial = bytearray()

    @property
    def unfinished(self) -> bytes:
        """What came after the last line end."""
        return bytes(self._partial)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete now, without their ends (`\\n` or `\\r\\n`)."""
        if self.overflowed:
            return []
        *whole, rest = chunk.split(b"\n")
        if whole:
            self._partial += whole[0]
            whole[0] = bytes(self._partial)
            self._partial.clear()
        self._partial += rest
        lines = []
        for line in whole:
            if len(line) > self._max_line:
                self.overflowed = True
                break
            lines.append(line.removesuffix(b"\r"))
        if len(self._partial) > self._max_line:
            self.overflowed = True
        if self.overflowed:
            self._partial = bytearray()
        return lines


def one_line(message: bytes) -> bytes:
    """A JSON message as a line. Raw line ends can only be white space in it: in strings they are escaped."""
    if b"\n" in message or b"\r" in message:
        message = message.replace(b"\n", b" ").replace(b"\r", b" ")
    return message + b"\n"
