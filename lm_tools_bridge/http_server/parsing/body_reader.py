"""Reads request bodies: of a known length, or in chunks (RFC 9112 §7.1).

Chunks are read strictly: exact line ends, plain sizes, bounded lines. Chunk extensions and trailers are
ignored. A chunked body over its cap is refused; for a known length, admission has applied the cap already.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from lm_tools_bridge.http_server.refusal import AdmissionRefusal, body_too_large

BROKEN: Final = AdmissionRefusal(
    400, "the body's framing is broken; send Content-Length or well-formed chunks"
)
MAX_LINE: Final = 4096
"""Bytes of a size line or a trailer."""
MAX_TRAILERS: Final = 100
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[^\x00-\x08\x0a-\x1f\x7f]*)?\Z")


class Body(Protocol):
    """A body that is being received.

    Attributes:
        is_complete: whether its end was seen.
        rest: the bytes behind its end.
    """

    is_complete: bool
    rest: bytes

    @property
    def body(self) -> bytes:
        """What has been received."""

    @property
    def received(self) -> int:
        """The bytes that have been received."""

    def feed(self, data: bytes) -> AdmissionRefusal | None:
        """Take the next bytes; return a refusal if the body is not acceptable."""


class MeasuredBody:
    """A `Body` of a known length, which is not 0; empty unless it `is_kept`."""

    def __init__(self, length: int, *, is_kept: bool = True) -> None:
        self.is_complete = False
        self.rest = b""
        self._length = self._missing = length
        self._is_kept = is_kept
        self._pieces: list[bytes] = []

    @property
    def body(self) -> bytes:
        """What has been received and kept."""
        return b"".join(self._pieces)

    @property
    def received(self) -> int:
        """The bytes that have been received."""
        return self._length - self._missing

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        own = data[: self._missing]
        if self._is_kept:
            self._pieces.append(own)
        self._missing -= len(own)
        self.is_complete, self.rest = not self._missing, data[len(own) :]


class ChunkedBody:
    """A `Body` in chunks, of at most `cap` bytes."""

    def __init__(self, cap: int) -> None:
        self.is_complete = False
        self.rest = b""
        self._cap = cap
        self._size = 0
        self._received = bytearray()
        self._line = b""  # the beginning of a line whose end has not been received
        self._missing = 0  # bytes of the current chunk
        self._read_line = self._read_size

    @property
    def body(self) -> bytes:
        """What has been received."""
        return bytes(self._received)

    @property
    def received(self) -> int:
        """The bytes that have been received."""
        return len(self._received)

    def feed(self, data: bytes) -> AdmissionRefusal | None:
        """Take the next bytes; return a refusal if the framing is broken or the body is too large."""
        data, self._line = self._line + data, b""
        at = 0
        while at < len(data) and not self.is_complete:
            if self._missing:
                piece = data[at : at + self._missing]
                self._received += piece
                self._missing -= len(piece)
                at += len(piece)
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                self._line = data[at:]
                return BROKEN if len(self._line.removesuffix(b"\r")) > MAX_LINE else None
            refusal = self._read_line(data[at:end]) if end - at <= MAX_LINE else BROKEN
            if refusal is not None:
                return refusal
            at = end + 2
        self.rest = data[at:]
        return None

    def _read_size(self, line: bytes) -> AdmissionRefusal | None:
        match = _SIZE.match(line)
        if match is None:
            return BROKEN
        self._missing = int(match[1], 16)
        self._size += self._missing
        if self._size > self._cap:
            self._received.clear()
            return body_too_large(self._cap)
        self._read_line = self._read_chunk_end if self._missing else self._read_trailer
        self._trailers = 0
        return None

    def _read_chunk_end(self, line: bytes) -> AdmissionRefusal | None:
        self._read_line = self._read_size
        return BROKEN if line else None

    def _read_trailer(self, line: bytes) -> AdmissionRefusal | None:
        self.is_complete = not line
        self._trailers += 1
        return BROKEN if self._trailers > MAX_TRAILERS else None
