"""Sends and answers the cached calls of one client connection, one after the other.

A cached call falls back to the direct relay if its response is late, incomplete or has to be parsed, and if
the client disconnects, cancels the call or sends the next request early. The client sees no difference.
"""

from __future__ import annotations

import asyncio
import time

from lm_tools_bridge.protocol.call_pattern import PatternValues
from manager.answers.exchange import make_trace_number
from manager.forwarding.forwarded_call import ForwardedCall, has_tool_error
from manager.relay import direct_relay
from manager.relay.fast_path import ClientConnection
from manager.route_cache.bound_route import BoundRoute
from manager.route_cache.route_cache import RouteCache, RouteGroup
from manager.routing.state.session_table import Session
from manager.upstream.connection import Connection
from manager.upstream.response import UpstreamResponse


class CachedPath(RouteCache):
    """The fast path of calls: the cached routes, and the calls of each connection (`fast_path.FastPath`)."""

    def connect(self, client: ClientConnection, transport: asyncio.Transport) -> CachedCalls:
        """The cached calls of a client connection."""
        return CachedCalls(client, transport, self)


class CachedCalls:
    """The cached calls of one client connection, at most one at a time (`fast_path.FastCalls`).

    Attributes:
        is_under_way: whether a call was sent and is not answered yet.
    """

    __slots__ = (
        "_begun_at",
        "_body",
        "_bound",
        "_cache",
        "_call",
        "_connection",
        "_has_patience",
        "_identity",
        "_last",
        "_transport",
        "_upstream",
        "is_under_way",
    )

    def __init__(self, client: ClientConnection, transport: asyncio.Transport, cache: RouteCache) -> None:
        self._connection = client
        self._transport = transport
        self._cache = cache
        self._last: BoundRoute | None = None
        self._bound: BoundRoute  # of the call that is under way
        self._upstream: Connection
        self._body = self._identity = b""
        self._call: ForwardedCall
        self._begun_at = 0.0
        self._has_patience = True
        self.is_under_way = False

    # -- requests ------------------------------------------------------------------------------------------

    def send_similar(self, data: bytes) -> bool:
        """Send an unparsed request like an earlier one of this connection, or with its request line."""
        last = self._last
        self._begun_at = time.monotonic()
        if last is None:
            return False
        start = last.body_at(data)
        if start < 0:
            return self._send_bound(last, data) or self._send_recent(data)
        body = data[start:]
        values = last.route.match(body)
        return values is not None and self._send(last, body, values)

    def _send_bound(self, last: BoundRoute, data: bytes) -> bool:
        """Send a request whose head differs from the last one only in `Content-Length` or session id."""
        split = last.heads.match(data)
        if split is None or (bound := self._cache.bound_route(last, split[1])) is None:
            return False
        body = data[split[0] :]
        values = bound.route.match(body)
        if values is None or not self._send(bound, body, values):
            return False
        bound.remember_request(data, split[0])
        self._remember(bound, data)
        return True

    def _send_recent(self, data: bytes) -> bool:
        """Send a request whose head matches that of the last call with this request client."""
        last = self._cache.recent(data)
        return last is not None and last is not self._last and self._send_bound(last, data)

    def _remember(self, bound: BoundRoute, head: bytes) -> None:
        self._last = bound
        self._cache.remember(bound, head)

    def send_parsed(
        self, match: tuple[Session | None, RouteGroup], head: bytes, body: bytes, trace: int
    ) -> bool:
        """Send a request whose head was parsed by a route of its group; False if no route can be used."""
        session, group = match
        self._begun_at = time.monotonic()
        for route in group.routes:
            values = route.match(body)
            if values is not None:
                bound = group.bound_route(route, session, head, self._cache.longest)
                if not self._send(bound, body, values, trace):
                    return False
                self._remember(bound, head)
                group.misses = 1
                return True
        return False

    def _send(self, bound: BoundRoute, body: bytes, values: PatternValues, trace: int = 0) -> bool:
        now, cache = self._begun_at, self._cache
        route, session = bound.route, bound.session
        identity = values[0]  # plain JSON text, so it equals its `id_key`
        if not (cache.is_valid(route, session, now) and cache.open_requests.may_begin(session, identity)):
            return False
        connection = route.instance.pool.take_now(now)
        if connection is None:
            return False
        cache.open_requests.begin(session, identity, self.cancel)
        if session is not None:
            route.mark(session)
        self._bound, self._upstream, self._body, self._identity = bound, connection, body, identity
        self.is_under_way = True
        made_trace = trace or (make_trace_number() if route.makes_traces else 0)
        self._call = cache.begin(route, values, bound.session_id, now, made_trace)
        self._connection.deadline.set_at(now + direct_relay.PATIENCE_S, self._on_late)
        connection.send_for(self, bound.request(body, values, made_trace))
        self._call.sent(time.monotonic())
        return True

    # -- responses (`response.FirstReadHandler`) -----------------------------------------------------------

    def take(self, data: bytes) -> bool:
        """Answer the client with the server's response; False if the call has to fall back."""
        now, bound, cache = time.monotonic(), self._bound, self._cache
        session = bound.session
        if session is not None and session.list_due:
            return False
        answer = bound.answer(data, self._identity, cache.date.at(now))
        if answer is None:
            return False
        self._upstream.release(now)
        self.is_under_way = False
        cache.open_requests.end(session, self._identity)
        self._transport.write(answer)
        self._connection.fast_call_answered(now)
        call = self._call
        call.received, call.took = len(data) - bound.route.body_start, bound.route.took
        if has_tool_error(data):
            call.answer_outcome = "error"
        call.end("ok", now)
        return True

    def respond(self) -> UpstreamResponse:
        """Fall back: return the response object that the direct relay will read."""
        self.is_under_way = False
        bound, connection, call = self._bound, self._upstream, self._call
        session = bound.session
        call.limit(self._begun_at, bound.route.instance.owner)
        response = call.response = UpstreamResponse(connection)
        http_request = self._connection.begin(
            bound.route.metadata, None if session is None else session.id, self._body
        )
        patience_s = direct_relay.PATIENCE_S if self._has_patience else 0.0
        self._cache.fall_back(http_request, bound, call, patience_s)
        self._has_patience = True
        return response

    def fall_back(self) -> None:
        """Fall back because the client has disconnected or sent its next request early."""
        self._upstream.detach_taker()

    def cancel(self) -> None:
        """Fall back and cancel the call, after the client's `notifications/cancelled`."""
        session = self._bound.session
        self._upstream.detach_taker()
        if session is not None:
            session.in_flight.cancel(self._identity)

    def _on_late(self) -> None:
        self._has_patience = False
        self._upstream.detach_taker()
