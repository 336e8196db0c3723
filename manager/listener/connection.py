"""One connection of a client: heads are collected, judged and sorted, requests served by whom they are for.

A request at an MCP route is served here, by our own code. Any other is handed, as the bytes it came in, to a
protocol of aiohttp's public server that serves this one request and is dismissed then. So every head passes
one grammar and one set of rules before anybody acts on it, under a cap and a deadline, and nobody but this
file ever says where a request ends.

How many connections there are says `connections.py`. What an answer looks like is `http/request.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, cast

from http_server.backpressure import Room
from http_server.body_reader import Body, ChunkedBody, MeasuredBody
from http_server.deadline import Deadline
from http_server.head import Framing
from manager.http.keep_alives import KeepAlives
from manager.http.limits import FULL, LATE, SLOW
from manager.http.request import HttpRequest
from manager.listener.aiohttp_delegation import DelegatedRequest
from manager.listener.connection_context import ConnectionContext
from manager.route_cache.cached_call import FastCall
from manager.routing.request_heads.admission import AdmissionRefusal, RequestHead
from manager.routing.request_heads.reader import Head, Refused
from manager.routing.request_heads.request_metadata import RequestMetadata
from manager.routing.request_heads.response_head import render_refusal
from manager.upstream.response import Piece

MAX_PIPELINED: Final = 64 * 1024
"""Bytes a client may send ahead while its last request is still being answered; more ends the connection."""

_HEAD_END: Final = b"\r\n\r\n"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class ClientConnection(asyncio.Protocol):
    """One connection. `_take` is what the next bytes are given to, and says in which state it is."""

    __slots__ = (
        "_ahead",
        "_body",
        "_fast",
        "_framing",
        "_handed",
        "_head",
        "_http_request",
        "_is_fresh",
        "_is_known",
        "_is_served",
        "_is_sorting",
        "_raw",
        "_session",
        "_shared",
        "_take",
        "_transport",
        "deadline",
        "room",
    )

    _head: Head  # of a request whose body is on its way
    _raw: bytes
    _session: str | None
    _body: Body

    def __init__(self, shared: ConnectionContext) -> None:
        self._shared = shared
        self._transport: asyncio.Transport
        self._take: Callable[[bytes], None] = _drop
        self._ahead = b""  # bytes of requests to come
        self._framing: Framing
        self._http_request: HttpRequest | None = None
        self._handed: DelegatedRequest | None = None
        self._is_known = self._is_sorting = self._is_served = False
        self._is_fresh = False  # whether the next bytes begin a request
        self._fast: FastCall | None = None
        self.deadline = Deadline(shared.deadlines)
        self.room = Room()

    @property
    def keep_alives(self) -> KeepAlives:
        """What fills the silences of event streams."""
        return self._shared.keep_alives

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that ends with the connections at the latest."""
        return self._shared.run(work)

    # -- the loop -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A new connection: served, or told that there are too many."""
        # Not an isinstance check: uvloop's transports do not inherit from asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        if not self._shared.admit(self):
            self._refuse(FULL, None)
            return
        self._take = self._take_head
        self.deadline.set(self._shared.limits.head_s, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything."""
        fast, self._fast = self._fast, None
        if fast is not None and fast.is_under_way:
            fast.let_go()
        self._take, self._ahead = _drop, b""
        self.deadline.close()
        self._shared.forget(self)
        self.room.grow(ConnectionResetError("the client is gone"))
        handed, self._handed = self._handed, None
        if handed is not None:
            handed.server.connection_lost(exc)
        http_request, self._http_request = self._http_request, None
        if http_request is not None:
            http_request.left()

    def data_received(self, data: bytes) -> None:
        """Give the bytes to whom they are for."""
        fast = self._fast
        if fast is not None:
            if fast.is_under_way:
                fast.let_go()
            elif self._is_fresh and fast.take_request(data):
                return
        self._take(data)

    def eof_received(self) -> bool | None:
        """The peer has finished sending."""
        return None if self._handed is None else self._handed.server.eof_received()

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        self.room.shrink()
        if self._handed is not None:
            self._handed.server.pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.room.grow()
        if self._handed is not None:
            self._handed.server.resume_writing()
        elif self._http_request is None and self._take == self._take_head:
            self._transport.resume_reading()
            if self._ahead:
                self._next()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being answered."""
        is_fast = self._fast is not None and self._fast.is_under_way
        return self._http_request is None and self._handed is None and not is_fast

    @property
    def is_handed_over(self) -> bool:
        """Whether the server answers a request on it."""
        return self._handed is not None

    def abort(self) -> None:
        """Cut the connection off."""
        self._transport.abort()

    def _head_is_late(self) -> None:
        if self._ahead:
            self._refuse(LATE, None)
        else:
            self._transport.close()

    # -- heads --------------------------------------------------------------------------------------------

    def _take_head(self, data: bytes) -> None:
        self._is_fresh = False
        is_first = not self._ahead
        self._ahead = data if is_first else self._ahead + data
        self._next(is_first=is_first)

    def _next(self, *, is_first: bool = True) -> None:
        """Serve what has come; `is_first` where nothing of the next request had come before."""
        if self._is_sorting:
            return  # answered at once: the loop below goes on
        self._is_sorting = True
        try:
            self._sort(is_first=is_first)
            while self._ahead and self._is_served and self._take == self._take_head:
                self._sort(is_first=True)
        finally:
            self._is_sorting = False

    def _sort(self, *, is_first: bool) -> None:
        """Look for a request in what has come."""
        self._is_served = False
        # RFC 9112 2.2: an empty line before the request line is ignored.
        data = self._ahead
        while data.startswith(b"\r\n"):
            data = self._ahead = data[2:]
        end = data.find(_HEAD_END) + 4
        if end < 4:
            self._wait_for_head(is_first=is_first)
            return
        self._is_served = True
        raw, self._ahead = data[:end], data[end:]
        read = self._shared.heads.read(raw)
        if isinstance(read, Refused):
            self._refuse(read.refusal, read.facts)
            return
        self._head, length, self._session = read
        if not self._is_known and (stranger := self._shared.stranger(self._transport)) is not None:
            self._refuse(stranger, self._head.facts)
            return
        self._is_known = True  # a verdict about a peer cannot change while the connection lives
        if self._head.metadata is None or self._shared.serve is None:
            self._hand_over(raw, length)
        else:
            self._raw = raw
            self._receive(length)

    def _wait_for_head(self, *, is_first: bool) -> None:
        refusal = self._shared.heads.hopeless(self._ahead)
        if refusal is not None:
            self._refuse(refusal, None)
        elif is_first:
            limits = self._shared.limits
            self.deadline.set(limits.head_s if self._ahead else limits.keepalive_s, self._head_is_late)

    def _refuse(self, refusal: AdmissionRefusal, facts: RequestHead | None) -> None:
        """Say why, and read on for a while: closing at once could destroy the answer on its way."""
        self._take, self._ahead = _drop, b""
        self._shared.log.note(refusal)
        self._transport.write(render_refusal(refusal, facts))
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self.deadline.set(self._shared.limits.linger_s, self.abort)

    # -- requests at MCP routes -----------------------------------------------------------------------------

    def _receive(self, length: int | None) -> None:
        """Collect the body, and serve the request when it is whole."""
        data = self._ahead
        if length is not None and len(data) >= length:
            self._ahead = data[length:]
            self._serve(data[:length])
            return
        if self._head.framing.waits and not data:
            self._transport.write(_CONTINUE)
        self._ahead = b""
        self._body = ChunkedBody(self._shared.rules.body_cap) if length is None else MeasuredBody(length)
        self._take = self._take_body
        self.deadline.set(self._shared.limits.body_s, lambda: self._refuse(SLOW, self._head.facts))
        self._take(data)

    def _take_body(self, data: bytes) -> None:
        body = self._body
        refusal = body.feed(data)
        if refusal is not None:
            self._refuse(refusal, self._head.facts)
        elif body.is_whole:
            self._ahead = body.rest
            del self._body
            self._serve(body.body)

    def _serve(self, body: bytes) -> None:
        head, serve = self._head, self._shared.serve
        metadata, self._framing = head.metadata, head.framing
        assert metadata is not None  # noqa: S101  narrows the types: `_next` has looked
        assert serve is not None  # noqa: S101
        self.deadline.clear()
        session, goes_fast = self._session, self._goes_fast(metadata, body)
        del self._head, self._raw
        if not goes_fast:
            serve(self.begin(metadata, session, body))

    def _goes_fast(self, metadata: RequestMetadata, body: bytes) -> bool:
        """Send the request where one like it was served before."""
        path = self._shared.fast
        if path is None or self._ahead:
            return False
        session, kind = path.known(metadata, self._session)
        if kind is None:
            return False
        self._take = self._take_head
        self._fast = self._fast or FastCall(self, self._transport, path)
        return self._fast.take_body(kind, session, self._raw, body)

    def begin(self, metadata: RequestMetadata, session: str | None, body: bytes) -> HttpRequest:
        """A request is answered the usual way from now on."""
        self._take, self._is_fresh = self._take_ahead, False
        self._http_request = HttpRequest(self, metadata, session, self._framing, body)
        return self._http_request

    def answered_fast(self, now: float) -> None:
        """For the fast path: an answer was written."""
        self._is_fresh = True
        self.deadline.set_at(now + self._shared.limits.keepalive_s, self._head_is_late)
        if self.room.is_short:
            self._transport.pause_reading()

    def _take_ahead(self, data: bytes) -> None:
        self._ahead += data
        if len(self._ahead) > MAX_PIPELINED:
            self.abort()

    # -- answers (`request.Line`) ----------------------------------------------------------------------------

    def send(self, pieces: Sequence[Piece]) -> None:
        """Hand bytes to the transport at once."""
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        else:
            self._transport.writelines(pieces)

    def answered(self, *, is_last: bool) -> None:
        """The answer is complete; the next request may follow."""
        self._http_request = None
        if is_last:
            self._take, self._ahead = _drop, b""
            self._transport.close()
            self.deadline.set(self._shared.limits.keepalive_s, self.abort)
            return
        self._take = self._take_head
        self.deadline.set(self._shared.limits.keepalive_s, self._head_is_late)
        if self.room.is_short:  # it does not read its answers: no more requests until it does
            self._transport.pause_reading()
        elif self._ahead:
            self._next()
        else:
            self._is_fresh = True

    # -- requests that are the server's ---------------------------------------------------------------------

    def _hand_over(self, raw: bytes, length: int | None) -> None:
        self.deadline.clear()
        data, self._ahead = self._ahead, b""
        self._take = self._take_for_server
        self._handed = DelegatedRequest(self._shared.server(), self._transport, length)
        if self.room.is_short:
            self._handed.server.pause_writing()
        self._handed.server.data_received(raw)
        if data:
            self._take(data)

    def _take_for_server(self, data: bytes) -> None:
        rest = data if self._handed is None else self._handed.take(data)
        if rest:
            self._take_ahead(rest)

    @property
    def is_last_by_framing(self) -> bool:
        """Whether nobody can tell where the request ends that was handed over."""
        return self._handed is not None and self._handed.is_chunked

    def message_done(self, *, is_last: bool) -> None:
        """For the door's middleware: the request that was handed over is answered."""
        if not is_last:
            asyncio.get_running_loop().call_soon(self._dismiss, self._handed)

    def _dismiss(self, handed: DelegatedRequest | None) -> None:
        if handed is None or self._handed is not handed:
            return
        self._handed = None
        handed.dismiss()
        if handed.missing:
            self._body, self._take = MeasuredBody(handed.missing), self._skip_body
            self.deadline.set(self._shared.limits.body_s, self.abort)
        else:
            self._take = self._take_head
            self._next()

    def _skip_body(self, data: bytes) -> None:
        """What was answered without being read."""
        self._body.feed(data)
        if self._body.is_whole:
            self._take = self._take_head
            self._take(self._body.rest)


def _drop(_: bytes) -> None:
    """Nobody wants these bytes."""
