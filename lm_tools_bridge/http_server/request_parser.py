"""Parses the requests of one connection, heads and bodies, from the bytes that arrive. Sans-IO and pure.

`receive` takes bytes. `next_head` and `next_body` return what is complete, a refusal, or None while more
bytes are needed. After a head, the caller decides who reads the body: the parser, or who gets `take_rest`.

Chunks are read strictly: exact line ends, plain sizes, bounded lines. Chunk extensions and trailers are
ignored. A chunked body over its cap is refused; for a known length, admission has applied the cap already.
"""

from __future__ import annotations

import re
from typing import Final, Generic, Protocol

from lm_tools_bridge.http_server.refusal import AdmissionRefusal, body_too_large
from lm_tools_bridge.http_server.request_head import Head, HeadReader, ReadHead, RefusedHead

BROKEN: Final = AdmissionRefusal(
    400, "the body's framing is broken; send Content-Length or well-formed chunks"
)
MAX_LINE: Final = 4096
"""Bytes of a size line or a trailer."""
# Trailers are read and thrown away: without a bound, a client could send them for ever.
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


MAX_BLANK_BYTES: Final = 512
"""Bytes of empty lines that are ignored before a request line (RFC 9112 §2.2)."""
TOO_MANY_BLANK_LINES: Final = AdmissionRefusal(
    400, f"more than {MAX_BLANK_BYTES} bytes of empty lines before a request; send the request at once"
)
_HEAD_END: Final = b"\r\n\r\n"
_BLANK_LINES: Final = re.compile(rb"(?:\r\n){1,%d}" % (MAX_BLANK_BYTES // 2 + 1))


class RequestParser(Generic[Head]):
    """The parser of one connection.

    Args:
        heads: parses and admits heads.
        body_cap: the most bytes of a chunked body.

    Attributes:
        buffer: bytes that were received and not parsed.
        raw_head: the bytes of the last head.
    """

    __slots__ = ("_blank_bytes", "_body", "_body_cap", "_heads", "buffer", "raw_head")

    def __init__(self, heads: HeadReader[Head], body_cap: int) -> None:
        self.buffer = b""
        self.raw_head = b""
        self._blank_bytes = 0  # before the next head
        self._heads = heads
        self._body_cap = body_cap
        self._body: Body | None = None

    def receive(self, data: bytes) -> None:
        """Take bytes from the transport."""
        self.buffer = self.buffer + data if self.buffer else data

    def next_head(self) -> ReadHead[Head] | RefusedHead | None:
        """Return the next head; None while its end is missing."""
        if self.buffer.startswith(b"\r\n") and not self._skip_blank_lines():
            return RefusedHead(TOO_MANY_BLANK_LINES)
        buffer = self.buffer
        end = buffer.find(_HEAD_END) + 4
        if end < 4:
            refusal = self._heads.refuse_begin(buffer)
            return None if refusal is None else RefusedHead(refusal)
        self.raw_head, self.buffer, self._blank_bytes = buffer[:end], buffer[end:], 0
        return self._heads.read(self.raw_head)

    def _skip_blank_lines(self) -> bool:
        """Drop empty lines from the buffer; return False if there are too many before one head."""
        match = _BLANK_LINES.match(self.buffer)
        if match is not None:
            self._blank_bytes += match.end()
            self.buffer = self.buffer[match.end() :]
        return self._blank_bytes <= MAX_BLANK_BYTES

    @property
    def has_begun(self) -> bool:
        """Whether a part of a request has been received; a lone CR may belong to an empty line."""
        return self.buffer not in (b"", b"\r")

    def whole_body(self, length: int | None) -> bytes | None:
        """Return a body that has been received already; None where it has to be waited for."""
        buffer = self.buffer
        if length is None or len(buffer) < length:
            return None
        self.buffer = buffer[length:]
        return buffer[:length]

    def expect_body(self, length: int | None) -> None:
        """Read a body of this length (None: in chunks) from now on, with `next_body`."""
        self._body = ChunkedBody(self._body_cap) if length is None else MeasuredBody(length)

    def discard_body(self, length: int) -> None:
        """Skip a body of this length from now on, with `next_body`, which returns an empty one."""
        self._body = MeasuredBody(length, is_kept=False)

    def next_body(self) -> bytes | AdmissionRefusal | None:
        """Return the expected body; None while its end is missing."""
        body = self._body
        assert body is not None  # noqa: S101  `expect_body` was called
        data, self.buffer = self.buffer, b""
        refusal = body.feed(data)
        if refusal is not None:
            return refusal
        if not body.is_complete:
            return None
        self._body, self.buffer = None, body.rest
        return body.body

    @property
    def received(self) -> int:
        """The bytes of the expected body that have been received."""
        return 0 if self._body is None else self._body.received

    def take_rest(self) -> bytes:
        """Return and forget all bytes that are not parsed."""
        rest, self.buffer = self.buffer, b""
        return rest

    def close(self) -> None:
        """Forget everything; no more requests are read."""
        self.buffer = self.raw_head = b""
        self._body = None
