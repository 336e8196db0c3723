"""Bodies of requests on their way in: of a length that was announced, or in chunks (RFC 9112 7.1).

Chunks are read strictly: exact line ends, plain sizes, bounded lines. Their extensions and trailers are read
over. What is longer than the cap is not kept; for an announced length the door has seen to that.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from http_server.refusal import AdmissionRefusal, body_too_large

BROKEN: Final = AdmissionRefusal(
    400, "the body's framing is broken; send Content-Length or well-formed chunks"
)
MAX_LINE: Final = 4096
"""Bytes of a size line or a trailer."""
MAX_TRAILERS: Final = 100
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[^\x00-\x08\x0a-\x1f\x7f]*)?\Z")


class Body(Protocol):
    """One body on its way in.

    Attributes:
        is_whole: whether its end was seen.
        rest: the bytes behind its end.
    """

    is_whole: bool
    rest: bytes

    @property
    def body(self) -> bytes:
        """What has come."""

    def feed(self, data: bytes) -> AdmissionRefusal | None:
        """Take the next bytes, or say why the body is not taken."""


class MeasuredBody:
    """A `Body` of an announced length, which is not 0."""

    def __init__(self, length: int) -> None:
        self.is_whole = False
        self.rest = b""
        self._missing = length
        self._pieces: list[bytes] = []

    @property
    def body(self) -> bytes:
        """What has come."""
        return b"".join(self._pieces)

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        own = data[: self._missing]
        self._pieces.append(own)
        self._missing -= len(own)
        self.is_whole, self.rest = not self._missing, data[len(own) :]


class ChunkedBody:
    """A `Body` that says in itself where it ends."""

    def __init__(self, cap: int) -> None:
        self.is_whole = False
        self.rest = b""
        self._cap = cap
        self._size = 0
        self._pieces: list[bytes] = []
        self._line = b""  # the beginning of a line whose end has not come
        self._left = 0  # bytes of the current chunk that have not come
        self._read = self._read_size

    @property
    def body(self) -> bytes:
        """What has come."""
        return b"".join(self._pieces)

    def feed(self, data: bytes) -> AdmissionRefusal | None:
        """Take the next bytes, or say why the body is not taken."""
        while data and not self.is_whole:
            if self._left:
                piece, data = data[: self._left], data[self._left :]
                self._pieces.append(piece)
                self._left -= len(piece)
                continue
            begin, end, behind = (self._line + data).partition(b"\r\n")
            if not end:
                self._line = begin
                return BROKEN if len(begin) > MAX_LINE else None
            self._line, data = b"", behind
            refusal = self._read(begin)
            if refusal is not None:
                return refusal
        self.rest = data
        return None

    def _read_size(self, line: bytes) -> AdmissionRefusal | None:
        found = _SIZE.match(line)
        if found is None:
            return BROKEN
        self._left = int(found[1], 16)
        self._size += self._left
        if self._size > self._cap:
            self._pieces.clear()
            return body_too_large(self._cap)
        self._read = self._read_end_of_data if self._left else self._read_trailer
        self._trailers = 0
        return None

    def _read_end_of_data(self, line: bytes) -> AdmissionRefusal | None:
        self._read = self._read_size
        return BROKEN if line else None

    def _read_trailer(self, line: bytes) -> AdmissionRefusal | None:
        self.is_whole = not line
        self._trailers += 1
        return BROKEN if self._trailers > MAX_TRAILERS else None
