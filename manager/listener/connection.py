"""One connection of a client: the fast path, MCP requests, and delegation of other requests to aiohttp.

`lm_tools_bridge/http_server/connection.py` reads the requests. So every head passes one grammar and one set
of admission rules under a cap and a deadline, whoever serves its request. The length of a request that
aiohttp serves is known from its head, so that aiohttp never gets bytes of the next request. Refused requests
are logged at most once a second, so that an attacker cannot fill the log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Any, Final, cast

import msgspec

from lm_tools_bridge.http_server.connection import HttpConnection
from lm_tools_bridge.http_server.connection_state import Event, State
from lm_tools_bridge.http_server.limits import Limits
from lm_tools_bridge.http_server.open_connections import ServerContext
from lm_tools_bridge.http_server.refusal import STOPPED_READING
from lm_tools_bridge.http_server.request_head import Framing, ReadHead, RequestHead
from lm_tools_bridge.machine.own_child_connections import is_own_child_connection
from lm_tools_bridge.protocol import trace_context
from manager.guests import Guest, GuestGate
from manager.http.open_streams import KeepAlives
from manager.http.request import HttpRequest, log_fault
from manager.listener.peer_identity import PeerCheck, judge
from manager.log import logger
from manager.relay.fast_path import FastCalls, FastPath
from manager.routing.admission import AdmissionRefusal, ClientHead, render_refusal, without_trace
from manager.routing.request_metadata import RequestMetadata
from manager.routing.state.clients import Peer

_log = logger()


class RefusalLog:
    """Logs refusals with the number of suppressed ones; never headers, paths or bodies."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = float("-inf")
        self._suppressed = 0

    def note(self, refusal: AdmissionRefusal) -> None:
        """Log a refusal, or count it if one was logged within the last second."""
        now = self._clock()
        if now < self._next:
            self._suppressed += 1
            return
        _log.info(
            "request refused", status=refusal.status, reason=refusal.reason, suppressed=self._suppressed
        )
        self._next = now + 1.0
        self._suppressed = 0


_CHECK_FAILED: Final = AdmissionRefusal(500, "Internal Server Error")


class ConnectionContext(msgspec.Struct, frozen=True):
    """What all connections of the manager's port share.

    Attributes:
        server: head reader, caps and deadlines.
        limits: deadlines of connections.
        log: of refusals.
        peer_check: whether the peer of a connection is served; None to serve all.
        make_aiohttp_protocol: makes the protocol for a request that is not for an MCP route.
        serve: answers a request at an MCP route; None where aiohttp serves all routes.
        fast_path: answers calls that are like earlier ones, if there is one.
        keep_alives: sends comments on event streams that are silent.
        gate: decides about guests; None where there are none.
    """

    server: ServerContext[ClientHead]
    limits: Limits
    log: RefusalLog
    peer_check: PeerCheck | None
    make_aiohttp_protocol: Callable[[], asyncio.Protocol]
    serve: Callable[[HttpRequest], None] | None
    fast_path: FastPath | None
    keep_alives: KeepAlives
    gate: GuestGate | None = None

    def judge_peer(
        self, transport: asyncio.BaseTransport, end: Callable[[], None]
    ) -> AdmissionRefusal | Guest | None:
        """Decide about the peer of a connection, once; see `peer_identity.judge`."""
        try:
            return judge(self.peer_check, self.gate, transport, end)
        except Exception as fault:  # noqa: BLE001  if the check fails, nobody is served
            log_fault(fault)
            return _CHECK_FAILED


class DelegatedRequest:
    """One request that aiohttp serves.

    Attributes:
        server: the protocol that serves it.
        is_chunked: whether the body is chunked, so that only the protocol notices its end.
        missing: bytes of the body that have not been received.
    """

    def __init__(self, server: asyncio.Protocol, transport: asyncio.Transport, length: int | None) -> None:
        self.server = server
        self.is_chunked = length is None
        self.missing = length or 0
        self._transport = _LentTransport(transport)
        server.connection_made(cast("asyncio.Transport", self._transport))

    def take(self, data: bytes) -> bytes:
        """Pass on what belongs to the request, and return the rest."""
        own = len(data) if self.is_chunked else min(len(data), self.missing)
        if not self.is_chunked:
            self.missing -= own
        if own:
            self.server.data_received(data[:own])
        return data[own:]

    def dismiss(self) -> None:
        """Tell the protocol that its connection has ended: the request is answered."""
        self._transport.is_returned = True
        self.server.connection_lost(None)


class _LentTransport:
    """The transport as the protocol sees it. After `dismiss` the protocol can no longer close it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.is_returned = False
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        """Close the transport while it is lent."""
        if not self.is_returned:
            self._transport.close()

    def abort(self) -> None:
        """Abort the transport while it is lent."""
        if not self.is_returned:
            self._transport.abort()


_IDLE: Final = State.IDLE  # looking up a member of an Enum takes 0.1 µs on Python 3.11


class ClientConnection(HttpConnection[ClientHead]):
    """One connection; `fast_path.ClientConnection` for its calls on the fast path."""

    __slots__ = ("_context", "_delegated", "_fast_calls", "_framing", "_guest", "_is_peer_admitted", "_peer")

    _framing: Framing  # of the last request

    def __init__(self, context: ConnectionContext) -> None:
        super().__init__(context.server)
        self._context: Final = context
        self._fast_calls: FastCalls | None = None
        self._delegated: DelegatedRequest | None = None
        self._is_peer_admitted = False
        self._guest: Guest | None = None  # where each request needs a proof
        self._peer: Peer | None = None

    @property
    def keep_alives(self) -> KeepAlives:
        """Sends comments on event streams that are silent."""
        return self._context.keep_alives

    async def is_from_own_child(self) -> bool:
        """Whether a program that we started sends on it, which must not decide for the user."""
        return await is_own_child_connection(self.transport)

    def peer(self) -> Peer | None:
        """The client's end of the connection, always the same; None if it did not connect over TCP."""
        if self._peer is None:
            local, remote = (self.transport.get_extra_info(name) for name in ("sockname", "peername"))
            if isinstance(local, tuple) and isinstance(remote, tuple):
                self._peer = Peer((local, remote))
        return self._peer

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return super().is_idle and (self._fast_calls is None or not self._fast_calls.is_under_way)

    @property
    def client(self) -> Hashable:
        """Whose share of the buffers the current request takes: its session's, if it has one."""
        read, request = self._read, self._request
        session = request.session if isinstance(request, HttpRequest) else read.session if read else None
        return self if session is None else session

    # -- asyncio.Protocol -----------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Send a call on the fast path, or pass the bytes to whom they belong."""
        fast_calls = self._fast_calls
        if fast_calls is not None:
            if fast_calls.is_under_way:
                fast_calls.fall_back()
            elif self.state is _IDLE and not self.parser.buffer and fast_calls.send_similar(data):
                return
        if self._delegated is not None:
            data = self._delegated.take(data)
        if data:
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything and tell whoever answers a request that its client disconnected."""
        fast_calls, self._fast_calls = self._fast_calls, None
        if fast_calls is not None and fast_calls.is_under_way:
            fast_calls.fall_back()
        delegated, self._delegated = self._delegated, None
        if self._guest is not None:
            self._guest.leave()
        super().connection_lost(exc)
        if delegated is not None:
            delegated.server.connection_lost(exc)

    def eof_received(self) -> bool | None:
        """Close the connection, unless aiohttp decides otherwise for a request that it serves."""
        return None if self._delegated is None else self._delegated.server.eof_received()

    def pause_writing(self) -> None:
        """Note that the client reads more slowly than the server writes."""
        super().pause_writing()
        if self._delegated is not None:
            self._delegated.server.pause_writing()

    def resume_writing(self) -> None:
        """Note that the client has caught up."""
        super().resume_writing()
        if self._delegated is not None:
            self._delegated.server.resume_writing()

    # -- MCP requests ---------------------------------------------------------------------------------------

    def serve(self, read: ReadHead[ClientHead], body: bytes) -> None:
        """Send a call that is like an earlier one on the fast path; hand others to the endpoints."""
        metadata, self._framing = read.head.metadata, read.head.framing
        serve = self._context.serve
        assert metadata is not None and serve is not None  # noqa: S101  narrows the types: `take_over` has looked
        trace = trace_context.number_of(read.trace) if read.trace else 0
        if not self._send_fast(metadata, read.session, body, trace):
            request = self.begin(metadata, read.session, body)
            request.made_trace = trace
            serve(request)

    def _send_fast(
        self, metadata: RequestMetadata, named_session: str | None, body: bytes, trace: int
    ) -> bool:
        fast_path = self._context.fast_path
        if fast_path is None or self.parser.buffer or self._room is not None:
            return False
        if not self._is_peer_admitted:  # each request needs a proof, so none is sent unparsed
            return False
        match = fast_path.find(metadata, named_session)
        if match is None:
            return False
        if self._fast_calls is None:
            self._fast_calls = fast_path.connect(self, self.transport)
        self.move(Event.CALL_CACHED)
        head = without_trace(self.parser.raw_head) if trace else self.parser.raw_head
        return self._fast_calls.send_parsed(match, head, body, trace)

    def begin(self, metadata: RequestMetadata, session: str | None, body: bytes) -> HttpRequest:
        """Make the request, which is answered without the fast path from now on."""
        request = HttpRequest(self, metadata, session, self._framing, body)
        self.start_serving(request)
        return request

    def fast_call_answered(self, now: float) -> None:
        """Note that a call on the fast path was answered, at monotonic time `now`."""
        self.deadline.set_at(now + self._context.limits.keepalive_s, self.on_head_timeout)
        if self.backpressure.is_paused:
            self.transport.pause_reading()

    # -- requests that aiohttp serves -----------------------------------------------------------------------

    def take_over(self, read: ReadHead[ClientHead]) -> bool:
        """Refuse a peer of another user, or a request that proves nothing; delegate other routes."""
        context = self._context
        if not self._is_peer_admitted:
            refusal = self._refuse_peer(read)
            if refusal is not None:
                self.refuse(refusal, read.head.parsed)
                return True
        if read.head.metadata is not None and context.serve is not None:
            return False
        self._delegate(read.length)
        return True

    def _refuse_peer(self, read: ReadHead[ClientHead]) -> AdmissionRefusal | None:
        if self._guest is None:
            judged = self._context.judge_peer(self.transport, self.abort)
            if judged is None:
                self._is_peer_admitted = True  # the peer of a connection never changes
                return None
            if isinstance(judged, AdmissionRefusal):
                return judged
            self._guest = judged
        return self._guest.refuse(read.head.parsed, read.session)

    def _delegate(self, length: int | None) -> None:
        self.move(Event.DELEGATED)
        self.deadline.clear()
        rest = self.parser.take_rest()
        delegated = DelegatedRequest(self._context.make_aiohttp_protocol(), self.transport, length)
        self._delegated = delegated
        if self.backpressure.is_paused:
            delegated.server.pause_writing()
        delegated.server.data_received(self.parser.raw_head)
        if rest:
            self.data_received(rest)

    @property
    def is_last_by_framing(self) -> bool:
        """Whether the delegated request has a chunked body, so that its end is known to aiohttp alone."""
        return self._delegated is not None and self._delegated.is_chunked

    def message_done(self, *, is_last: bool) -> None:
        """Note that aiohttp has answered the delegated request; called by the middleware."""
        if not is_last:
            asyncio.get_running_loop().call_soon(self._dismiss, self._delegated)

    def _dismiss(self, delegated: DelegatedRequest | None) -> None:
        if delegated is None or self._delegated is not delegated:
            return
        self._delegated = None
        delegated.dismiss()
        if not self.transport.is_closing():
            self.transport.resume_reading()  # aiohttp pauses it while nobody reads a large body
        if delegated.missing:
            self.move(Event.DELEGATE_DONE_EARLY)
            self.discard_body(delegated.missing)
        else:
            self.move(Event.DELEGATE_DONE)
            self.await_request()
            self.read_requests()

    def close_stopped(self) -> None:
        """Log that the client does not read, and close its connection."""
        self._context.log.note(STOPPED_READING)
        super().close_stopped()

    # -- refusals -------------------------------------------------------------------------------------------

    def refuse(self, refusal: AdmissionRefusal, head: RequestHead | None) -> None:
        """Log and write a refusal."""
        self._context.log.note(refusal)
        super().refuse(refusal, head)

    def render_refusal(self, refusal: AdmissionRefusal, head: RequestHead | None) -> bytes:
        """Render a refusal as JSON, or as a JSON-RPC error at an MCP route."""
        return render_refusal(refusal, head)
