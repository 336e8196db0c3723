"""Splits a byte stream into messages, framed by `Content-Length: N` (as in LSP) or one per line. Pure.

The first byte of a connection selects the form for both directions. Lengths count bytes.
"""

from __future__ import annotations

from typing import Final, Literal

from lm_tools_bridge.protocol.content_length import ContentLengthSplitter, frame

MAX_MESSAGE: Final = 4 * 1024 * 1024

Form = Literal["length", "line"]


class MessageFraming:
    """Splits what one connection receives into messages, and frames what it sends.

    Args:
        max_message: largest message in bytes.
    """

    def __init__(self, max_message: int = MAX_MESSAGE) -> None:
        self._max = max_message
        self._framed = ContentLengthSplitter(max_message)
        self._partial = bytearray()  # a line without its end
        self._too_long: str | None = None
        self.form: Form | None = None

    @property
    def broken(self) -> str | None:
        """Why the stream is broken: a missing or repeated length, or a message that is too large."""
        return self._too_long or self._framed.broken

    @property
    def is_between(self) -> bool:
        """Whether no incomplete message is buffered."""
        return not self._partial and self._framed.is_between

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes; returns the messages that are complete now. Check `broken` afterwards."""
        if self.form is None and data:
            # a header begins with a letter, a JSON object does not
            self.form = "length" if data[0] in b"Cc" else "line"
        if self.form == "length":
            return [message for message in self._framed.feed(data) if isinstance(message, bytes)]
        return [line for line in self._lines(data) if line.strip()]

    def frame(self, message: bytes) -> bytes:
        """Frame a message, which must not contain a line feed, in the connection's form."""
        return frame(message) if self.form == "length" else message + b"\n"

    def _lines(self, data: bytes) -> list[bytes]:
        if self._too_long is not None:
            return []
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = bytes(self._partial + whole[0])
            self._partial.clear()
        self._partial += rest
        for number, line in enumerate((*whole, self._partial)):
            if len(line) > self._max:
                self._too_long = f"a message is longer than {self._max} bytes"
                return whole[:number]
        return whole
