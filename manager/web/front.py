"""One connection of a client: heads are collected, judged and sorted; each request is served by whom it is for.

A request at an MCP route is served here, by our own code. Any other is handed, as the bytes it came in, to a
protocol of aiohttp's public server that serves this one request and is dismissed then. So every head passes
one grammar and one set of rules before anybody acts on it, under a cap and a deadline, and nobody but this
file ever says where a request ends.

How many connections there are says `connections.py`. What an answer looks like is `incoming.py`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final, cast

from manager.routing.chunked import ChunkedBody
from manager.routing.door import DoorRefusal, DoorRules, RequestFacts
from manager.routing.head import MALFORMED, may_become_head, render_refusal
from manager.routing.heads import Head, Heads, Refused
from manager.web.faults import log_fault
from manager.web.incoming import Incoming
from manager.web.limits import Limits
from manager.web.peers import FOREIGN, PeerCheck
from manager.web.refusal_log import RefusalLog

MAX_PIPELINED: Final = 64 * 1024
"""Bytes a client may send ahead while its last request is still being answered; more ends the connection."""

_HEAD_END: Final = b"\r\n\r\n"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LATE: Final = DoorRefusal(408, "the request's head did not arrive in time; send it at once")
_SLOW: Final = DoorRefusal(408, "the body did not arrive in time; send it at once")
_BROKEN: Final = DoorRefusal(500, "Internal Server Error")
_FULL: Final = DoorRefusal(
    503, "too many open connections; close idle ones, then retry", (("Retry-After", "1"),)
)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all connections of a manager share.

    `server` makes a protocol for a request that is not for an MCP route; `serve` answers one that is, and where
    it is None there are no such routes. `admit` takes a connection in, `forget` lets it go. `run` starts a task that
    ends with the connections at the latest.
    """

    heads: Heads
    rules: DoorRules
    limits: Limits
    log: RefusalLog
    peer_check: PeerCheck | None
    server: Callable[[], asyncio.Protocol]
    serve: Callable[[Incoming], None] | None
    admit: Callable[[Front], bool]
    forget: Callable[[Front], None]
    run: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class Front(asyncio.Protocol):
    """One connection. `_take` is what the next bytes are given to, and says in which state it is."""

    __slots__ = (
        "_ahead",
        "_body",
        "_chunks",
        "_head",
        "_incoming",
        "_inner",
        "_is_served",
        "_is_sorting",
        "_loan",
        "_loop",
        "_missing",
        "_on_late",
        "_room",
        "_shared",
        "_take",
        "_timer",
        "_transport",
        "chunked",
        "deadline",
        "peer_allowed",
    )  # fmt: skip

    def __init__(self, shared: Shared) -> None:
        self.peer_allowed: bool | None = None
        """The verdict about the peer, which cannot change while the connection lives; None before it."""
        self.chunked = False
        """The current body has no known end for us: the answer to it must close the connection."""
        self.deadline = inf
        """When something will be late, on the loop's clock."""
        self._shared = shared
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._take: Callable[[bytes], None] = _drop
        self._ahead = b""  # bytes of requests to come
        self._head: Head
        self._body: list[bytes] = []
        self._chunks: ChunkedBody
        self._missing = 0  # bytes of the current body
        self._incoming: Incoming | None = None
        self._inner: asyncio.Protocol | None = None
        self._loan: _Loan
        self._timer: asyncio.TimerHandle | None = None
        self._is_sorting = self._is_served = False
        self._room: asyncio.Future[None] | None = None  # there while the client does not keep up
        self._on_late: Callable[[], None] = _nothing

    # -- the loop -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A new connection: served, or told that there are too many."""
        # Not an isinstance check: uvloop's transports do not inherit from asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        if not self._shared.admit(self):
            self._refuse(_FULL, None)
            return
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._take = self._take_head
        self.expect(self._shared.limits.head_s, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything."""
        self._take, self.deadline, self._on_late = _drop, inf, _nothing
        if self._timer is not None:
            self._timer.cancel()
        self._ahead, self._body = b"", []
        self._shared.forget(self)
        self._make_room(ConnectionResetError("the client is gone"))
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.connection_lost(exc)
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            incoming.left()

    def data_received(self, data: bytes) -> None:
        """Give the bytes to whom they are for."""
        self._take(data)

    def eof_received(self) -> bool | None:
        """The peer has finished sending."""
        return None if self._inner is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        self._room = self._loop.create_future()
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._make_room(None)
        if self._inner is not None:
            self._inner.resume_writing()
        elif self._incoming is None and self._take == self._take_head:
            self._transport.resume_reading()
            if self._ahead:
                self._next()

    # -- time ---------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being answered."""
        return self._incoming is None and self._inner is None

    @property
    def is_handed_over(self) -> bool:
        """Whether the server answers a request on it."""
        return self._inner is not None

    def abort(self) -> None:
        """Cut the connection off."""
        self._transport.abort()

    def _head_is_late(self) -> None:
        if self._ahead:
            self._refuse(_LATE, None)
        else:
            self._transport.close()

    def _body_is_late(self) -> None:
        self._refuse(_SLOW, self._head.facts)

    # -- heads --------------------------------------------------------------------------------------------

    def _take_head(self, data: bytes) -> None:
        is_first = not self._ahead
        self._ahead = data if is_first else self._ahead + data
        self._next(is_first=is_first)

    def _next(self, *, is_first: bool = True) -> None:
        """Serve what has come, as long as it is answered at once.

        Args:
            is_first: nothing of the next request had come before.
        """
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
        self._head, length = read
        if self.peer_allowed is not True and (stranger := self._stranger()) is not None:
            self._refuse(stranger, self._head.facts)
        elif self._head.arrival is None or self._shared.serve is None:
            self._hand_over(raw, length)
        else:
            self._receive(length)

    def _wait_for_head(self, *, is_first: bool) -> None:
        rules = self._shared.rules
        if len(self._ahead) > rules.head_cap:
            self._refuse(rules.head_too_large, None)
        elif self._ahead and self._ahead != b"\r" and not may_become_head(self._ahead):
            self._refuse(MALFORMED, None)
        elif is_first:
            limits = self._shared.limits
            self.expect(limits.head_s if self._ahead else limits.keepalive_s, self._head_is_late)

    def _stranger(self) -> DoorRefusal | None:
        """Why the peer is not served, asked once."""
        check = self._shared.peer_check
        if self.peer_allowed is None:
            try:
                self.peer_allowed = check is None or check(self._transport)
            except Exception as fault:  # noqa: BLE001  whatever it is, nobody gets in
                log_fault(fault)
                return _BROKEN
        return FOREIGN if self.peer_allowed is False else None

    def _refuse(self, refusal: DoorRefusal, facts: RequestFacts | None) -> None:
        """Say why, and read on for a while: closing at once could destroy the answer on its way."""
        self._take, self._ahead, self._body = _drop, b"", []
        if refusal is not _BROKEN:
            self._shared.log.note(refusal)
        self._transport.write(render_refusal(refusal, facts))
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self.expect(self._shared.limits.linger_s, self.abort)

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
        self.expect(self._shared.limits.body_s, self._body_is_late)
        if length is None:
            self._chunks = ChunkedBody(self._shared.rules.body_cap)
            self._take = self._take_chunks
        else:
            self._missing = length
            self._take = self._take_body
        self._take(data)

    def _take_body(self, data: bytes) -> None:
        self._missing -= len(data)
        if self._missing > 0:
            self._body.append(data)
            return
        end = len(data) + self._missing
        self._body.append(data[:end])
        self._ahead = data[end:]
        body, self._body = b"".join(self._body), []
        self._serve(body)

    def _take_chunks(self, data: bytes) -> None:
        refusal = self._chunks.feed(data)
        if refusal is not None:
            self._refuse(refusal, self._head.facts)
        elif self._chunks.is_whole:
            self._ahead = self._chunks.rest
            self._serve(self._chunks.body)

    def _serve(self, body: bytes) -> None:
        self._take, self.deadline = self._take_ahead, inf
        head, serve = self._head, self._shared.serve
        assert head.arrival is not None  # noqa: S101  narrows the types: `_next` has looked
        assert serve is not None  # noqa: S101
        self._incoming = Incoming(self, head.arrival, head.framing, body)
        serve(self._incoming)

    def _take_ahead(self, data: bytes) -> None:
        self._ahead += data
        if len(self._ahead) > MAX_PIPELINED:
            self.abort()

    # -- answers (`incoming.Line`) ------------------------------------------------------------------------

    def send(self, pieces: Sequence[bytes]) -> None:
        """Hand bytes to the transport at once."""
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        else:
            self._transport.writelines(pieces)

    async def room(self) -> None:
        """Wait until the client keeps up."""
        if self._room is not None:
            await asyncio.shield(self._room)

    def answered(self, *, is_last: bool) -> None:
        """The answer is complete; the next request may follow."""
        self._incoming = None
        if is_last:
            self._take, self._ahead = _drop, b""
            self._transport.close()
            self.expect(self._shared.limits.keepalive_s, self.abort)
            return
        self._take = self._take_head
        self.expect(self._shared.limits.keepalive_s, self._head_is_late)
        if self._room is not None:  # it does not read its answers: no more requests until it does
            self._transport.pause_reading()
        elif self._ahead:
            self._next()

    def expect(self, seconds: float, on_late: Callable[[], None]) -> None:
        """Call this after so many seconds, unless something else comes to be expected.

        A timer that would come earlier is left as it is, so that calls in quick succession need no new ones.
        """
        self.deadline = self._loop.time() + seconds
        self._on_late = on_late
        if self._timer is None or self._timer.when() > self.deadline:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self.deadline, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._loop.time() >= self.deadline:
            self.deadline = inf
            self._on_late()
        elif self.deadline != inf:
            self._arm()

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something in a task that ends with the connections at the latest."""
        return self._shared.run(work)

    def _make_room(self, fault: Exception | None) -> None:
        room, self._room = self._room, None
        if room is None or room.done():
            return
        if fault is None:
            room.set_result(None)
        else:
            room.set_exception(fault)
            room.exception()  # seen: perhaps nobody waits

    # -- requests that are the server's ---------------------------------------------------------------------

    def _hand_over(self, raw: bytes, length: int | None) -> None:
        self.deadline = inf
        self.chunked = length is None
        self._loan = _Loan(self._transport)
        self._inner = self._shared.server()
        self._inner.connection_made(cast("asyncio.Transport", self._loan))
        if self._room is not None:
            self._inner.pause_writing()
        data, self._ahead = self._ahead, b""
        self._missing = 0 if length is None else length
        self._take = self._take_for_server
        self._inner.data_received(raw)
        if data and self._inner is not None:
            self._take(data)

    def _take_for_server(self, data: bytes) -> None:
        own = len(data) if self.chunked else min(len(data), self._missing)
        self._missing -= 0 if self.chunked else own
        if own and self._inner is not None:
            self._inner.data_received(data[:own])
        if own < len(data):
            self._take_ahead(data[own:])

    def message_done(self, *, is_last: bool) -> None:
        """For the door's middleware: the request that was handed over is answered."""
        if not is_last:
            self._loop.call_soon(self._dismiss, self._inner)

    def _dismiss(self, inner: asyncio.Protocol | None) -> None:
        """The server is done with its request: from its side, this connection has ended."""
        if inner is None or self._inner is not inner:
            return
        self._inner = None
        self._loan.is_over = True
        inner.connection_lost(None)
        if self._missing:
            self._take = self._skip_body
        else:
            self._take = self._take_head
            self._next()

    def _skip_body(self, data: bytes) -> None:
        """What was answered without being read."""
        skipped = min(len(data), self._missing)
        self._missing -= skipped
        if not self._missing:
            self._take = self._take_head
            self._take(data[skipped:])


class _Loan:
    """The connection as the server has it for one request; afterwards it is not the server's to close."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.is_over = False
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        """Close it, while it is lent."""
        if not self.is_over:
            self._transport.close()

    def abort(self) -> None:
        """Cut it off, while it is lent."""
        if not self.is_over:
            self._transport.abort()


def _drop(_: bytes) -> None:
    """Nobody wants these bytes."""


def _nothing() -> None:
    """Nothing is waited for."""
