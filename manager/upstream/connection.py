"""One HTTP/1.1 connection to a workspace server, with one request in flight at a time.

Every failure says whether the server may have read the request. Redirects, cookies, compression, HEAD,
upgrades, TLS, retries and deadlines are not supported. `pool.py` chooses the connection for a request. A
caller that is cancelled or calls `abandon()` closes the connection at once, which cancels the call at the
server. A large body is written in pieces, only as fast as the server reads, and read into a reusable buffer:
an ordinary protocol would get a copy of each read. An idle connection is asked by the kernel's own state
whether it has input that the event loop has not processed yet.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from math import inf
from typing import Final, Protocol, cast

from manager.upstream.failures import Blame, LineCut, UpstreamFailure
from manager.upstream.response import (
    FirstReadHandler,
    ResponseHead,
    UpstreamResponse,
    read_known_beginning,
    read_known_response,
)
from manager.upstream.response_parser import ResponseParser

SIZE: Final = 300 * 1024
"""Bytes of a piece. Twice as many did not make it faster.

Not a power of two: with 256 KiB, 1 MB took a quarter longer, presumably because pieces and the kernel's
copies then collide in the processor's cache.
"""


class Reader(Protocol):
    """The connection that reads the body."""

    def piece_received(self, piece: memoryview) -> None:
        """Take a piece, which is valid during this call only; copy the rest that is not written at once."""

    def pause_writing(self) -> None:
        """As in `asyncio.BaseProtocol`."""

    def resume_writing(self) -> None:
        """As in `asyncio.BaseProtocol`."""

    def eof_received(self) -> None:
        """As in `asyncio.BaseProtocol`."""

    def connection_lost(self, exc: Exception | None) -> None:
        """As in `asyncio.BaseProtocol`."""


_SPARE: Final = 4
"""Buffers kept for the next large bodies, since a new buffer must be filled with zeros."""
_spare: Final[list[bytearray]] = []


class ReadBuffer(asyncio.BufferedProtocol):
    """Replaces the connection as the protocol of its transport while it reads a large body."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._buffer = _spare.pop() if _spare else _new_buffer()

    def close(self) -> None:
        """Keep the buffer for another body, although the last piece may still be in use."""
        if len(_spare) < _SPARE:
            _spare.append(self._buffer)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Called by the loop before it reads."""
        try:
            self._buffer.append(0)  # fails if a memoryview of the buffer exists; undone below
        except BufferError:  # part of the last piece waits to be written
            self._buffer = _new_buffer()
        else:
            self._buffer.pop()
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the loop after it has read."""
        self._reader.piece_received(memoryview(self._buffer)[:nbytes])

    def pause_writing(self) -> None:
        """Called by the transport."""
        self._reader.pause_writing()

    def resume_writing(self) -> None:
        """Called by the transport."""
        self._reader.resume_writing()

    def eof_received(self) -> None:
        """Called by the loop when the server has closed its side."""
        self._reader.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop, once."""
        self._reader.connection_lost(exc)


def _new_buffer() -> bytearray:
    buffer = bytearray(SIZE + 1)
    buffer.pop()  # leaves capacity for the append in `get_buffer`
    return buffer


JOINED_WRITE: Final = 64 * 1024
"""Bytes of a request from which its body is not joined to its head, but written in pieces of PIECE bytes."""
PIECE: Final = 256 * 1024
"""Bytes of a body that are given to the transport at a time. It copies what the socket does not take, so a
piece bounds the copy. The server's event loop reads so much at a time."""
_NOTHING: Final = memoryview(b"")


class RequestWriter:
    """Writes one request at a time.

    Attributes:
        unsent: The rest of the body that the transport has not accepted yet.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._is_paused = False
        self.unsent = _NOTHING

    def write(self, head: bytes, body: bytes) -> None:
        """Write a request, or as much of it as the transport accepts now."""
        if len(head) + len(body) < JOINED_WRITE:
            self._transport.write(head + body)
            return
        view = memoryview(body)
        self.unsent = view[PIECE:]
        self._transport.writelines((head, view[:PIECE]))
        self._write_more()

    def pause(self) -> None:
        """Write no more: the server reads more slowly than we write."""
        self._is_paused = True

    def resume(self) -> None:
        """Go on writing."""
        self._is_paused = False
        self._write_more()

    def drop(self) -> None:
        """Forget what is unsent."""
        self.unsent = _NOTHING

    def _write_more(self) -> None:
        while self.unsent and not self._is_paused and not self._transport.is_closing():
            piece, self.unsent = self.unsent[:PIECE], self.unsent[PIECE:]
            self._transport.write(piece)


class InputCheck:
    """Checks one connection, with one system call."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._poller: select.poll | None = None

    def has_input(self) -> bool:
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


# Bytes of one read above which copying the beginning of a body is too slow.
BEGUN = 16 * 1024

# What some servers send before they close an idle connection.
_IDLE_TIMEOUT = b"HTTP/1.1 408 "


class Connection(asyncio.Protocol):
    """A TCP connection. Any data that arrives while it is idle closes it.

    Args:
        on_lost: Called once, when the socket closes.

    Attributes:
        on_idle: Called when the connection can carry another request.
        idle_since: Monotonic time.
        broke_off: Whether the server closed it within an exchange.
        is_out_of_step: Whether the server sent something that answers no request, such as a second answer.
    """

    _transport: asyncio.Transport
    _input_check: InputCheck
    _writer: RequestWriter
    _missing: int  # bytes still to come of a body of known length that has begun
    _may_lend: bool

    def __init__(self, on_lost: Callable[[Connection], None]) -> None:
        self.on_idle: Callable[[Connection], None] | None = None
        self.broke_off = False
        self.is_out_of_step = False
        self._on_lost = on_lost
        self._parser: ResponseParser | None = None  # set if the header cache does not handle the response
        self._response: UpstreamResponse | None = None  # None if idle, or if a handler is set
        self._handler: FirstReadHandler | None = None
        self.idle_since = -inf
        self._read_buffer: ReadBuffer | None = None
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
        return self.is_open and not self._input_check.has_input()

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
        self._writer.write(head, body)
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
        self._writer.drop()
        self._transport.abort()
        self._drop_parser()
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
        self._input_check = InputCheck(self._transport)
        self._writer = RequestWriter(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop, once."""
        self.detach_taker()
        self.broke_off = self.broke_off or self._response is not None
        self.close("line_cut" if isinstance(exc, LineCut) else self._break_off_cause())
        self._on_lost(self)

    def eof_received(self) -> None:
        """Called by the loop when the server has closed its side."""
        self.detach_taker()
        parser = self._parser
        if self._response is not None and parser is not None and parser.ends_with_connection:
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
        if self._missing:
            self._take_measured(response, data)
            return
        if self._parser is None:  # the first read of the response
            if (known := read_known_response(data)) is not None:
                self._response = None
                response.receive_whole(*known)
                self._end_exchange(reusable=True)
                return
            if len(data) > BEGUN and (begun := read_known_beginning(data)) is not None:
                self._begin_measured(response, data, *begun)
                return
            self._parser = ResponseParser(response)
        self._parse(self._parser, response, data)

    def _parse(self, parser: ResponseParser, response: UpstreamResponse, data: bytes) -> None:
        """Parse data that is handled neither by the header cache nor by length."""
        failure = parser.feed(data)
        if piece := parser.take_body():
            if parser.length is not None and not parser.is_complete:
                self._missing = parser.length - len(piece)
                self._lend()
            if response.receive_body(piece) and not parser.is_complete:
                self._transport.pause_reading()
        if self._response is not response:
            return  # its reader has abandoned it
        if parser.is_complete:
            self.is_out_of_step = failure is not None
            self._finish(response, reusable=failure is None and parser.keep_alive)
        elif failure is not None:
            self.close(failure)

    def _begin_measured(
        self, response: UpstreamResponse, data: bytes, head: ResponseHead, took: bytes, start: int
    ) -> None:
        """Begin a large body after a cached head, without parsing or copying."""
        self._missing = (head.content_length or 0) - len(data) + start
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
            keep_alive = self._parser is None or self._parser.keep_alive  # a cached head always allows it
            self._finish(response, reusable=keep_alive and not is_more)

    def pause_writing(self) -> None:
        """Called by the transport when the server reads more slowly than we write."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """Called by the transport."""
        self._writer.resume()

    def _reset(self) -> None:
        self._missing = 0
        self._may_lend = False

    def _finish(self, response: UpstreamResponse, *, reusable: bool = False) -> None:
        """End a complete response; a reusable connection becomes idle if its whole request was sent."""
        self._response = None
        self._drop_parser()
        if self._read_buffer is not None:
            self._transport.set_protocol(self)
            self._read_buffer.close()
            self._read_buffer = None
        response.end(None)
        self._end_exchange(reusable=reusable)

    def _end_exchange(self, *, reusable: bool) -> None:
        if reusable and not self._writer.unsent and not self._transport.get_write_buffer_size():
            if self.on_idle is not None:
                self.on_idle(self)
        else:
            self.close("connection_lost")

    def _drop_parser(self) -> None:
        if self._parser is not None:
            self._parser.close()
            self._parser = None

    def _break_off_cause(self) -> str:
        has_head = self._missing or (self._parser is not None and self._parser.has_head)
        return "truncated_response" if has_head else "connection_lost"
