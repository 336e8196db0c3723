"""Parses a response that the header cache does not handle, and adds its head to the cache.

Interim responses (1xx) are dropped. One parser reads one response.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.internal import call_reports
from lm_tools_bridge.protocol.internal.result_trim import ResultTrim
from manager.upstream.response import ResponseHead, remember_head

MAX_HEAD: Final = 64 * 1024
"""Most bytes without any byte of the body: httptools limits neither the head nor the trailers."""
_TRIM: Final = headers.RESULT_TRIM.lower().encode()
_TOOK: Final = headers.TOOK.lower().encode()


class HeadReceiver(Protocol):
    """The response that is parsed."""

    took: bytes
    """Its timing, which may also come in a trailer."""

    def receive_head(self, head: ResponseHead, took: bytes) -> None:
        """Take the head of the final response, and its timing if the head has it."""


class ResponseParser:
    """Parses one response.

    `on_message_begin` … `on_message_complete` are callbacks of httptools.

    Attributes:
        has_head: Whether the head of the final response is complete.
        is_complete: Whether the whole final response has been parsed.
        length: Bytes of the body, if the head says how many.
        ends_with_connection: Whether the body ends only when the server closes the connection.
        keep_alive: Whether the connection can carry another request after this response.
    """

    __slots__ = (
        "_bodiless_bytes",
        "_first",
        "_headers",
        "_parser",
        "_pieces",
        "_response",
        "ends_with_connection",
        "has_head",
        "is_complete",
        "keep_alive",
        "length",
    )

    def __init__(self, response: HeadReceiver) -> None:
        self._response = response
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._first = b""  # the read with the whole head; empty if the head came in pieces
        self._headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._bodiless_bytes = 0
        self.length: int | None = None
        self.has_head = self.is_complete = self.keep_alive = self.ends_with_connection = False

    def close(self) -> None:
        """Drop httptools' parser; it holds this object, so that neither would be freed at once."""
        self._parser = None

    def feed(self, data: bytes) -> str | None:
        """Parse one read; return the cause of a failure, if any. What precedes the failure is kept."""
        room = MAX_HEAD - self._bodiless_bytes
        parts: tuple[bytes | memoryview, ...] = (data,)
        if len(data) > room and not self.has_head:
            parts = (data[:room], memoryview(data)[room:])
        self._first = b"" if self._bodiless_bytes else data  # a head in pieces is not cached
        parser = self._parser
        assert parser is not None  # noqa: S101  narrows the type: a closed parser is not fed
        try:
            for part in parts:
                if self._bodiless_bytes >= MAX_HEAD:
                    return "head_too_large"
                self._bodiless_bytes += len(part)
                parser.feed_data(part)
        except (HttpParserError, HttpParserUpgrade):  # the second is not a subclass of the first
            return "malformed_response"
        return None

    def take_body(self) -> bytes:
        """The body that was parsed since the last call, as one piece; empty if there is none."""
        if not self._pieces:
            return b""
        piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        return piece

    def on_message_begin(self) -> None:
        """Reject a second response to a request, as a parser error."""
        if self.is_complete:
            raise ValueError("unsolicited response")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a field of the head. Trailers arrive here too, after the head; one of them is known."""
        name = name.lower()
        if name == _TOOK and len(value) > call_reports.LONGEST:
            return  # such values would wait for an observer of calls in their thousands
        self._headers.append((name, value))
        if self.has_head and name == _TOOK:
            self._response.took = value

    def on_headers_complete(self) -> None:
        """Build the head; drop an interim one (1xx)."""
        assert self._parser is not None  # noqa: S101  narrows the type: the parser calls this
        status = self._parser.get_status_code()
        if status < 200:
            self._headers.clear()
            self._first = b""
            return
        self.length, self.ends_with_connection = _body_framing(status, self._headers)
        self.has_head = True
        self._bodiless_bytes = 0
        self.keep_alive = self._parser.should_keep_alive()
        fields = dict(reversed(self._headers))  # the first of each name
        media_type = fields.get(b"content-type", b"").split(b";")[0].strip().lower()
        trim = ResultTrim.from_header(fields.get(_TRIM))
        head = ResponseHead(status, tuple(self._headers), self.length, media_type, trim)
        if self.keep_alive and not self.ends_with_connection:
            remember_head(self._first, head)
        self._response.receive_head(head, fields.get(_TOOK, b""))

    def on_body(self, piece: bytes) -> None:
        """Collect the body of one read."""
        self._bodiless_bytes = 0
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Record the end of the final response."""
        self.is_complete = self.has_head


def _body_framing(status: int, fields: Sequence[tuple[bytes, bytes]]) -> tuple[int | None, bool]:
    """(length of the body if known, whether it ends with the connection). RFC 9112 §6.3."""
    if status in (204, 304):
        return 0, False
    for name, value in fields:
        if name == b"content-length":
            return int(value), False
        if name == b"transfer-encoding":
            if value.lower() != b"chunked":
                raise ValueError("unsupported transfer coding")
            return None, False
    return None, True
