"""Splits a byte stream into messages, framed by `Content-Length: N` (as in LSP) or one per line. Pure.

The first byte of a connection selects the form for both directions. Lengths count bytes.
"""

from __future__ import annotations

import re
from typing import Final, Literal

MAX_MESSAGE: Final = 4 * 1024 * 1024
MAX_HEAD: Final = 4096
_HEADER: Final = re.compile(rb"content-length[ \t]*:[ \t]*([0-9]{1,10})[ \t]*\Z", re.IGNORECASE)
_LENGTH: Final = b"content-length"

Form = Literal["length", "line"]


class _FramingError(Exception):
    """The stream cannot be split into messages any more."""


class MessageFraming:
    """Splits what one connection receives into messages, and frames what it sends.

    Args:
        max_message: largest message in bytes.
    """

    def __init__(self, max_message: int = MAX_MESSAGE) -> None:
        self._max = max_message
        self._buffer = bytearray()
        self._searched = 0  # the buffer up to here has no terminator: keeps the cost linear
        self._awaited: int | None = None  # bytes of the message whose head was read
        self.form: Form | None = None
        self.broken: str | None = None
        """Why the stream is broken: a missing or repeated length, or a message that is too large."""

    @property
    def is_between(self) -> bool:
        """Whether no incomplete message is buffered."""
        return not self._buffer and self._awaited is None

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes; returns the messages that are complete now. Check `broken` afterwards."""
        self._buffer += data
        if self.form is None and self._buffer:
            # a header begins with a letter, a JSON object does not
            self.form = "length" if self._buffer[0] in b"Cc" else "line"
        found = []
        try:
            while self.broken is None and (message := self._next()) is not None:
                found.append(message)
        except _FramingError as fault:
            self.broken = str(fault)
        return [message for message in found if self.form == "length" or message.strip()]

    def frame(self, message: bytes) -> bytes:
        """Frame a message, which must not contain a line feed, in the connection's form."""
        if self.form == "length":
            return b"Content-Length: %d\r\n\r\n" % len(message) + message
        return message + b"\n"

    def _next(self) -> bytes | None:
        if self.form == "line":
            return self._up_to(b"\n", self._max, "a message")
        if self._awaited is None:
            head = self._up_to(b"\r\n\r\n", MAX_HEAD, "a head")
            if head is None:
                return None
            self._awaited = self._length_in(head)
        if len(self._buffer) < self._awaited:
            return None
        message = self._taken(self._awaited, 0)
        self._awaited = None
        return message

    def _up_to(self, end: bytes, limit: int, what: str) -> bytes | None:
        found = self._buffer.find(end, self._searched)
        if (len(self._buffer) if found < 0 else found) > limit:
            raise _FramingError(f"{what} is longer than {limit} bytes")
        if found < 0:
            self._searched = max(0, len(self._buffer) - len(end) + 1)
            return None
        return self._taken(found, len(end))

    def _taken(self, size: int, dropped: int) -> bytes:
        message = bytes(memoryview(self._buffer)[:size])
        del self._buffer[: size + dropped]
        self._searched = 0
        return message

    def _length_in(self, head: bytes) -> int:
        lines = [line for line in head.split(b"\r\n") if line.lower().startswith(_LENGTH)]
        found = _HEADER.match(lines[0]) if len(lines) == 1 else None
        if found is None:
            raise _FramingError("expected exactly one Content-Length")
        length = int(found.group(1))
        if length > self._max:
            raise _FramingError(f"a message is longer than {self._max} bytes")
        return length
