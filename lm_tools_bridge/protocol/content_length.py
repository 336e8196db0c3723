"""Splits a byte stream into messages framed by `Content-Length: N`, as in LSP. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# Heads of LSP are two short fields; a longer one is a program that prints to its standard output.
MAX_HEAD: Final = 4096
START: Final = 256
"""So many bytes of a message that is too large are kept."""
_HEADER: Final = re.compile(rb"content-length[ \t]*:[ \t]*([0-9]{1,10})[ \t]*\Z", re.IGNORECASE)
_LENGTH: Final = b"content-length"
_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A message over the limit, whose bytes were dropped.

    Attributes:
        length: its size in bytes.
        start: its first 256 bytes.
    """

    length: int
    start: bytes


class _FramingError(Exception):
    """The stream cannot be split into messages any more."""


class ContentLengthSplitter:
    """Collects the bytes of one stream. The cost is linear however the bytes arrive.

    Args:
        max_message: largest message in bytes.
        max_dropped: a message above `max_message`, but not above this, is dropped and reported as `TooLarge`.
            A larger one breaks the stream.
    """

    def __init__(self, max_message: int, max_dropped: int = 0) -> None:
        self._max = max_message
        self._max_dropped = max(max_message, max_dropped)
        self._buffer = bytearray()
        self._searched = 0  # the buffer up to here has no end of a head
        self._awaited: int | None = None  # bytes of the message whose head was read
        self._dropping: TooLarge | None = None
        self._to_drop = 0
        self.broken: str | None = None
        """Why the stream is broken: a missing or repeated length, or a message that is too large."""

    @property
    def is_between(self) -> bool:
        """Whether no incomplete message is buffered."""
        return not self._buffer and self._awaited is None and self._dropping is None

    def feed(self, data: bytes) -> list[bytes | TooLarge]:
        """Add received bytes; returns the messages that are complete now. Check `broken` afterwards."""
        messages: list[bytes | TooLarge] = []
        if self.broken is not None:
            return messages
        self._buffer += data
        try:
            while (message := self._next()) is not None:
                messages.append(message)
        except _FramingError as fault:
            self.broken = str(fault)
            self._buffer.clear()
        return messages

    def _next(self) -> bytes | TooLarge | None:
        if self._dropping is None and self._awaited is None:
            head = self._head()
            if head is None:
                return None
            length = _length_in(head)
            if length > self._max_dropped:
                raise _FramingError(f"a message is longer than {self._max_dropped} bytes")
            self._awaited = length
        if self._dropping is None and self._awaited is not None and self._awaited > self._max:
            size = min(START, self._awaited)
            if len(self._buffer) < size:
                return None
            self._dropping = TooLarge(self._awaited, bytes(self._buffer[:size]))
            self._to_drop, self._awaited = self._awaited, None
        return self._message() if self._dropping is None else self._dropped(self._dropping)

    def _message(self) -> bytes | None:
        if self._awaited is None or len(self._buffer) < self._awaited:
            return None
        size, self._awaited = self._awaited, None
        return self._take(size)

    def _dropped(self, message: TooLarge) -> TooLarge | None:
        now = min(self._to_drop, len(self._buffer))
        del self._buffer[:now]
        self._to_drop -= now
        if self._to_drop:
            return None
        self._dropping = None
        return message

    def _head(self) -> bytes | None:
        end = self._buffer.find(_END, self._searched)
        if (len(self._buffer) if end < 0 else end) > MAX_HEAD:
            raise _FramingError(f"a head is longer than {MAX_HEAD} bytes")
        if end < 0:
            self._searched = max(0, len(self._buffer) - len(_END) + 1)
            return None
        head = self._take(end)
        del self._buffer[: len(_END)]
        self._searched = 0
        return head

    def _take(self, size: int) -> bytes:
        data = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        return data


def frame(message: bytes) -> bytes:
    """A message with its head."""
    return b"Content-Length: %d\r\n\r\n" % len(message) + message


def _length_in(head: bytes) -> int:
    lines = [line for line in head.split(b"\r\n") if line.lower().startswith(_LENGTH)]
    match = _HEADER.match(lines[0]) if len(lines) == 1 else None
    if match is None:
        raise _FramingError("expected exactly one Content-Length")
    return int(match.group(1))
