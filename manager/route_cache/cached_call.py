"""Sends and answers the cached calls of one client connection, one after the other.

A cached call falls back to the direct relay when its answer is late, incomplete or needs reading, and when
its client leaves, cancels it or sends the next request early. The client sees no difference.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from http_server.deadline import Deadline
from manager.forwarding.forwarded_call import ForwardedCall
from manager.http.request import HttpRequest
from manager.relay import direct_relay
from manager.route_cache.bound_route import BoundRoute
from manager.route_cache.route_cache import RouteCache
from manager.route_cache.route_group import RouteGroup
from manager.routing.request_heads.request_metadata import RequestMetadata
from manager.routing.state.session_table import Session
from manager.upstream.connection import Connection
from manager.upstream.response import UpstreamResponse
from protocol.call_pattern import PatternValues

_monotonic = time.monotonic


class Line(Protocol):
    """The connection of the client."""

    deadline: Deadline

    def begin(self, metadata: RequestMetadata, session: str | None, body: bytes) -> HttpRequest:
        """Begin a request that is not answered from the cache."""

    def answered_fast(self, now: float) -> None:
        """An answer was written; the next request may follow."""


class CachedCall:
    """The cached calls of one connection; at most one is under way.

    Attributes:
        is_under_way: whether a call was sent and not answered.
    """

    __slots__ = (
        "_begun",
        "_body",
        "_bound",
        "_cache",
        "_call",
        "_has_patience",
        "_identity",
        "_last",
        "_line",
        "_transport",
        "_upstream",
        "is_under_way",
    )

    def __init__(self, line: Line, transport: asyncio.Transport, cache: RouteCache) -> None:
        self._line = line
        self._transport = transport
        self._cache = cache
        self._last: BoundRoute | None = None
        self._bound: BoundRoute  # of the call under way
        self._upstream: Connection
        self._body = self._identity = b""
        self._call: ForwardedCall
        self._begun = 0.0
        self._has_patience = True
        self.is_under_way = False

    # -- requests ------------------------------------------------------------------------------------------

    def send_similar(self, data: bytes) -> bool:
        """Send a request like one before, on this connection or to the same address.

        Returns:
            False where it is none, and nothing was done.
        """
        last = self._last
        self._begun = _monotonic()
        if last is None:
            return False
        start = last.body_at(data)
        if start < 0:
            return self._send_bound(last, data) or self._send_recent(data)
        body = data[start:]
        found = last.route.match(body)
        return found is not None and self._send(last, body, found)

    def _send_bound(self, last: BoundRoute, data: bytes) -> bool:
        """The same where the length differs, or the session."""
        split = last.heads.match(data)
        if split is None or (bound := self._cache.bound_route(last, split[1])) is None:
            return False
        body = data[split[0] :]
        found = bound.route.match(body)
        if found is None or not self._send(bound, body, found):
            return False
        bound.remember_request(data, split[0])
        self._keep(bound, data)
        return True

    def _send_recent(self, data: bytes) -> bool:
        """The same where the address differs, if others call there in this manner."""
        last = self._cache.recent(data)
        return last is not None and last is not self._last and self._send_bound(last, data)

    def _keep(self, bound: BoundRoute, head: bytes) -> None:
        self._last = bound
        self._cache.remember(bound, head)

    def send_parsed(self, group: RouteGroup, session: Session | None, head: bytes, body: bytes) -> bool:
        """Send a parsed request by a route of this group; False where no route fits, and nothing was done."""
        self._begun = _monotonic()
        for route in group.routes:
            found = route.match(body)
            if found is not None:
                bound = group.bound_route(route, session, head, self._cache.longest)
                if not self._send(bound, body, found):
                    return False
                self._keep(bound, head)
                group.misses = 1
                return True
        return False

    def _send(self, bound: BoundRoute, body: bytes, found: PatternValues) -> bool:
        now, cache = self._begun, self._cache
        route, session = bound.route, bound.session
        if not cache.is_valid(route, session, now):
            return False
        identity = found[0]  # a plain one is its own key
        if session is not None and identity in session.in_flight:
            return False
        connection = route.instance.pool.take_now(now)
        if connection is None:
            return False
        if session is not None:
            session.in_flight[identity] = self.cancel
            route.mark(session)
        self._bound, self._upstream, self._body, self._identity = bound, connection, body, identity
        self.is_under_way = True
        self._call = cache.begin(route, identity, now)
        self._line.deadline.set_at(now + direct_relay.PATIENCE_S, self._patience_over)
        connection.send_for(self, bound.request(body, found))
        self._call.sent(_monotonic())
        return True

    # -- answers (`response.Taker`) ------------------------------------------------------------------------

    def take(self, data: bytes) -> bool:
        """Write the answer where it is complete and needs no reading; False where it must fall back."""
        now, bound, cache = _monotonic(), self._bound, self._cache
        answer = bound.answer(data, self._identity, cache.date.at(now))
        if answer is None:
            return False
        self._upstream.release(now)
        self.is_under_way = False
        session = bound.session
        if session is not None:
            session.in_flight.pop(self._identity, None)
        self._transport.write(answer)
        self._line.answered_fast(now)
        cache.end(self._call, now)
        return True

    def respond(self) -> UpstreamResponse:
        """Fall back: the direct relay gets the answer."""
        self.is_under_way = False
        bound, connection = self._bound, self._upstream
        session = bound.session
        response = self._call.response = UpstreamResponse(connection)
        http_request = self._line.begin(
            bound.route.metadata, None if session is None else session.id, self._body
        )
        patience_s = direct_relay.PATIENCE_S if self._has_patience else 0.0
        relay = self._cache.fall_back(http_request, bound, self._call, patience_s)
        self._has_patience = True
        if session is not None:
            session.in_flight[self._identity] = relay.cancel
        return response

    def fall_back(self) -> None:
        """For the connection: the client left, or does not wait for its answer."""
        self._upstream.detach_taker()

    def cancel(self) -> None:
        """The client said that it does not want it any more."""
        session = self._bound.session
        self._upstream.detach_taker()
        if session is not None and (cancel := session.in_flight.get(self._identity)) is not None:
            cancel()

    def _patience_over(self) -> None:
        self._has_patience = False
        self._upstream.detach_taker()
