"""One HTTP/1.1 connection to a workspace server, with one request in flight at a time.

Every failure says whether the server may have read the request. Redirects, cookies, compression, HEAD,
upgrades, TLS, retries and deadlines are not supported. `pool.py` chooses the connection for a request. A
caller that is cancelled or calls `abandon()` closes the connection at once, which cancels the call at the
server.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Sequence
from math import inf
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from manager.upstream import header_cache
from manager.upstream.failures import Blame, LineCut, UpstreamFailure
from manager.upstream.read_buffer import SIZE, ReadBuffer
from manager.upstream.response import FirstReadHandler, UpstreamResponse
from manager.upstream.response_head import ResponseHead
from protocol import headers
from protocol.internal import call_timing
from protocol.internal.result_trim import ResultTrim

# Most bytes without any byte of the body: httptools limits neither the head nor the trailers.
MAX_HEAD = 64 * 1024
# Bytes of a request from which its body is not joined to its head, but written in pieces of PIECE bytes.
JOINED_WRITE = 64 * 1024
PIECE = 256 * 1024
# Bytes of one read above which copying the beginning of a body is too slow.
BEGUN = 16 * 1024

_NOTHING = memoryview(b"")
# What some servers send before they close an idle connection.
_IDLE_TIMEOUT = b"HTTP/1.1 408 "
_TRIM = headers.RESULT_TRIM.lower().encode()
_TOOK = headers.TOOK.lower().encode()


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


class Connection(asyncio.Protocol):
    """A TCP connection. Any data that arrives while it is idle closes it.

    `on_message_begin` … `on_message_complete` are callbacks of httptools.

    Args:
        on_lost: Called once, when the socket closes.

    Attributes:
        on_idle: Called when the connection can carry another request.
        idle_since: Monotonic time.
        broke_off: Whether the server closed it within an exchange.
        is_out_of_step: Whether the server sent something that answers no request, such as a second answer.
    """

    _transport: asyncio.Transport
    _length: int | None
    _missing: int  # bytes still to come of a body of known length that has begun

    def __init__(self, on_lost: Callable[[Connection], None]) -> None:
        self.on_idle: Callable[[Connection], None] | None = None
        self.broke_off = False
        self.is_out_of_step = False
        self._on_lost = on_lost
        self._parser: HttpResponseParser | None = None  # set within a response
        self._response: UpstreamResponse | None = None  # None if idle, or if a handler is set
        self._handler: FirstReadHandler | None = None
        self.idle_since = -inf
        self._unsent = _NOTHING
        self._writing_paused = False
        self._read_buffer: ReadBuffer | None = None
        self._poller: select.poll | None = None
        self._reset()

    @property
    def is_open(self) -> bool:
        """Whether a request can be written to the transport."""
        return not self._transport.is_closing()

    @property
    def is_fit(self) -> bool:
        """Whether an idle connection can carry a call.

        One system call also detects a close that the event loop has not processed yet.
        """
        return self.is_open and not self._has_input()

    def _has_input(self) -> bool:
        """Whether data or the end of the stream can be read."""
        if self._poller is None:
            socket = self._transport.get_extra_info("socket")
            if socket is None:  # on a line to another host, whose input was processed when it arrived
                return False
            descriptor = socket.fileno()
            if not hasattr(select, "poll"):
                return bool(select.select([descriptor], [], [], 0)[0])
            self._poller = select.poll()
            self._poller.register(descriptor, select.POLLIN)
        return bool(self._poller.poll(0))

    @property
    def ends(self) -> tuple[tuple[str, int], tuple[str, int]] | None:
        """Our address and the server's, or None once the socket is closed."""
        ours = self._transport.get_extra_info("sockname")
        theirs = self._transport.get_extra_info("peername")
        return (ours[:2], theirs[:2]) if ours and theirs else None

    async def exchange(self, head: bytes, body: bytes) -> UpstreamResponse:
        """Send a request on an idle connection and wait for the head of the final response.

        Raises:
            UpstreamFailure: NOT_DELIVERED only if the connection was closed before anything was written.
        """
        if not self.is_open:
            raise UpstreamFailure(Blame.NOT_DELIVERED, "connection_lost")
        response = self.begin(head, body)
        await response.head_arrival()
        return response

    def begin(self, head: bytes, body: bytes) -> UpstreamResponse:
        """Send a request on an idle, open connection; return the response before its head has arrived."""
        self._reset()
        response = self._response = UpstreamResponse(self)
        self._send(head, body)
        return response

    def send_for(self, handler: FirstReadHandler, request: bytes) -> None:
        """Send a request, head and body, on an idle, open connection; `handler` gets the first read."""
        self._handler = handler
        self._transport.write(request)

    def release(self, now: float) -> None:
        """Make the connection idle again; called by a handler that got the whole answer."""
        self._handler = None
        self.idle_since = now
        if self._transport.get_write_buffer_size() or self.on_idle is None:
            self._end_exchange(reusable=True)
        else:
            self.on_idle(self)

    def detach_taker(self) -> None:
        """Replace the handler, if any, by the response that it provides."""
        handler, self._handler = self._handler, None
        if handler is not None:
            self._reset()
            self._response = handler.respond()

    def close(self, cause: str) -> None:
        """Close at once and drop unsent bytes; an unfinished response fails with `cause`. Idempotent."""
        self.detach_taker()
        self._unsent = _NOTHING
        self._transport.abort()
        response, self._response = self._response, None
        if response is not None:
            response.end(cause)

    def close_idle(self, cause: str) -> None:
        """Close as `close` does, unless the connection carries a request."""
        if self._response is None and self._handler is None:
            self.close(cause)

    def pause_reading(self) -> None:
        """Pause reading; called by the response while its reader has no room."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading; called by the response when its buffer is empty."""
        self._transport.resume_reading()

    def lend(self) -> None:
        """Lend the rest of the body as memoryviews; called by a response whose reader keeps none."""
        self._may_lend = True
        self._lend()

    def _lend(self) -> None:
        if self._may_lend and self._read_buffer is None and self._missing > SIZE:
            self._read_buffer = ReadBuffer(self)
            self._transport.set_protocol(self._read_buffer)

    def piece_received(self, piece: memoryview) -> None:
        """Pass on a piece of a body of known length; called by the read buffer."""
        if self._response is not None:
            self._take_measured(self._response, piece)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit from it

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop, once."""
        self.detach_taker()
        self.broke_off = self.broke_off or self._response is not None
        self.close("line_cut" if isinstance(exc, LineCut) else self._break_off_cause())
        self._on_lost(self)

    def eof_received(self) -> None:
        """Called by the loop when the server has closed its side."""
        self.detach_taker()
        if self._response is not None and self._until_eof:
            self._finish(self._response)
        else:
            self.broke_off = self._response is not None
            self.close(self._break_off_cause())

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        handler = self._handler
        if handler is not None:
            if handler.take(data):
                return
            self.detach_taker()
        response = self._response
        if response is None:  # unsolicited data must not become the answer to the next call
            self.is_out_of_step = not data.startswith(_IDLE_TIMEOUT)
            self.close("malformed_response")
            return
        is_first = not self._bodiless_bytes and not self._has_head
        if is_first and (known := header_cache.whole(data)) is not None:
            self._response = None
            response.receive_whole(*known)
            self._end_exchange(reusable=True)
            return
        if self._missing:
            self._take_measured(response, data)
            return
        if is_first and len(data) > BEGUN and (begun := header_cache.begun(data)) is not None:
            self._begin_measured(response, data, *begun)
        else:
            self._take_unknown(response, data)

    def _take_unknown(self, response: UpstreamResponse, data: bytes) -> None:
        """Parse data that is not handled by the header cache or by length."""
        failure = self._parse(data)
        if self._body:
            piece = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._body.clear()
            if self._length is not None and not self._complete:
                self._missing = self._length - len(piece)
                self._lend()
            if response.receive_body(piece) and not self._complete:
                self._transport.pause_reading()
        if self._response is not response:
            return  # its reader has abandoned it
        if self._complete:
            self.is_out_of_step = failure is not None
            self._finish(response, reusable=failure is None and self._keep_alive)
        elif failure is not None:
            self.close(failure)

    def _begin_measured(
        self, response: UpstreamResponse, data: bytes, head: ResponseHead, took: bytes, start: int
    ) -> None:
        """Begin a large body after a cached head, without parsing or copying."""
        self._length = head.content_length or 0
        self._has_head = self._keep_alive = True
        self._missing = self._length - len(data) + start
        response.receive_head(head, took)
        is_full = response.receive_body(memoryview(data)[start:])
        if is_full and self._response is response:
            self._transport.pause_reading()

    def _take_measured(self, response: UpstreamResponse, data: bytes | memoryview) -> None:
        """Pass on more of a body of known length, without parsing."""
        is_more = len(data) > self._missing
        piece = data[: self._missing] if is_more else data
        self._missing -= len(piece)
        is_full = response.receive_body(piece)
        if self._response is not response:
            return  # its reader has abandoned it
        if is_full and self._missing:
            self._transport.pause_reading()
        if not self._missing:
            self.is_out_of_step = is_more
            self._finish(response, reusable=self._keep_alive and not is_more)

    def pause_writing(self) -> None:
        """Called by the transport when the server reads more slowly than we write."""
        self._writing_paused = True

    def resume_writing(self) -> None:
        """Called by the transport."""
        self._writing_paused = False
        self._send_more()

    def on_message_begin(self) -> None:
        """Reject a second response to a request, as a parser error."""
        if self._complete:
            raise ValueError("unsolicited response")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a field of the head. Trailers arrive here too, after the head; one of them is known."""
        name = name.lower()
        if name == _TOOK and len(value) > call_timing.LONGEST:
            return  # such values would wait for the recorder in their thousands
        self._headers.append((name, value))
        if self._has_head and name == _TOOK and self._response is not None:
            self._response.took = value

    def on_headers_complete(self) -> None:
        """Build the head; drop an interim one (1xx)."""
        assert self._parser is not None  # noqa: S101  narrows the type: the parser calls this
        status = self._parser.get_status_code()
        if status < 200:
            self._headers.clear()
            self._first = b""
            return
        length, self._until_eof = _body_framing(status, self._headers)
        self._length = length
        self._has_head = True
        self._bodiless_bytes = 0
        self._keep_alive = self._parser.should_keep_alive()
        fields = dict(reversed(self._headers))  # the first of each name
        media_type = fields.get(b"content-type", b"").split(b";")[0].strip().lower()
        trim = ResultTrim.from_header(fields.get(_TRIM))
        head = ResponseHead(status, tuple(self._headers), length, media_type, trim)
        if self._keep_alive and not self._until_eof:
            header_cache.remember(self._first, head)
        if self._response is not None:
            self._response.receive_head(head, fields.get(_TOOK, b""))

    def on_body(self, piece: bytes) -> None:
        """Collect the body of one read, which is passed on as one piece."""
        self._bodiless_bytes = 0
        self._body.append(piece)

    def on_message_complete(self) -> None:
        """Record the end of the final response."""
        self._complete = self._has_head

    def _reset(self) -> None:
        self._first = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._bodiless_bytes = 0
        self._length, self._missing = None, 0
        self._parser = None
        self._has_head = self._complete = self._keep_alive = self._until_eof = self._may_lend = False

    def _parse(self, data: bytes) -> str | None:
        """Feed the parser; return the cause of a failure, if any. Data before the failure is collected."""
        room = MAX_HEAD - self._bodiless_bytes
        parts: tuple[bytes | memoryview, ...] = (data,)
        if len(data) > room and not self._has_head:
            parts = (data[:room], memoryview(data)[room:])
        self._first = b"" if self._bodiless_bytes else data  # a head in pieces is not cached
        parser = self._parser = self._parser or HttpResponseParser(self)
        try:
            for part in parts:
                if self._bodiless_bytes >= MAX_HEAD:
                    return "head_too_large"
                self._bodiless_bytes += len(part)
                parser.feed_data(part)
        except (HttpParserError, HttpParserUpgrade):  # the second is not a subclass of the first
            return "malformed_response"
        return None

    def _finish(self, response: UpstreamResponse, *, reusable: bool = False) -> None:
        """End a complete response; a reusable connection becomes idle if its whole request was sent."""
        self._response = self._parser = None
        if self._read_buffer is not None:
            self._transport.set_protocol(self)
            self._read_buffer.close()
            self._read_buffer = None
        response.end(None)
        self._end_exchange(reusable=reusable)

    def _end_exchange(self, *, reusable: bool) -> None:
        if reusable and not self._unsent and not self._transport.get_write_buffer_size():
            if self.on_idle is not None:
                self.on_idle(self)
        else:
            self.close("connection_lost")

    def _break_off_cause(self) -> str:
        return "truncated_response" if self._has_head else "connection_lost"

    def _send(self, head: bytes, body: bytes) -> None:
        if len(head) + len(body) < JOINED_WRITE:
            self._transport.write(head + body)
            return
        view = memoryview(body)
        self._unsent = view[PIECE:]
        self._transport.writelines((head, view[:PIECE]))
        self._send_more()

    def _send_more(self) -> None:
        """Write the rest of the body while the transport accepts more."""
        while self._unsent and not self._writing_paused and not self._transport.is_closing():
            piece, self._unsent = self._unsent[:PIECE], self._unsent[PIECE:]
            self._transport.write(piece)
