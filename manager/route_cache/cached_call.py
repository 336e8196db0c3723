"""The calls of one connection that are on the fast path, one after the other: sent, answered, or let go of.

At any point such a call can go on the usual way: when its answer is not whole or not plain, late, or never
comes, when its client leaves, cancels it or sends the next request early. Then it is as if it had gone there
from the beginning.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from http_server.deadline import Deadline
from manager.http.request import HttpRequest
from manager.relay import direct_relay
from manager.route_cache.bound_route import Passage
from manager.route_cache.route_cache import FastPath
from manager.route_cache.route_group import Kind
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
        """A request that is answered the usual way from now on."""

    def answered_fast(self, now: float) -> None:
        """An answer was written; the next request may follow."""


class FastCall:
    """What such calls need of a connection, and the one under way.

    Attributes:
        is_under_way: whether a call was sent and not answered.
    """

    __slots__ = (
        "_begun",
        "_body",
        "_identity",
        "_is_patient",
        "_last",
        "_line",
        "_link",
        "_passage",
        "_path",
        "_sent",
        "_transport",
        "is_under_way",
    )

    def __init__(self, line: Line, transport: asyncio.Transport, path: FastPath) -> None:
        self._line = line
        self._transport = transport
        self._path = path
        self._last: Passage | None = None
        self._passage: Passage  # of the call under way
        self._link: Connection
        self._body = self._identity = b""
        self._begun = self._sent = 0.0
        self._is_patient = True
        self.is_under_way = False

    # -- requests ------------------------------------------------------------------------------------------

    def take_request(self, data: bytes) -> bool:
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
            return self._take_similar(last, data) or self._take_recent(data)
        body = data[start:]
        found = last.route.match(body)
        return found is not None and self._send(last, body, found)

    def _take_similar(self, last: Passage, data: bytes) -> bool:
        """The same where the length differs, or the session."""
        split = last.heads.match(data)
        if split is None or (passage := self._path.passage(last, split[1])) is None:
            return False
        body = data[split[0] :]
        found = passage.route.match(body)
        if found is None or not self._send(passage, body, found):
            return False
        passage.came(data, split[0])
        self._keep(passage, data)
        return True

    def _take_recent(self, data: bytes) -> bool:
        """The same where the address differs, if others call there in this manner."""
        last = self._path.recent(data)
        return last is not None and last is not self._last and self._take_similar(last, data)

    def _keep(self, passage: Passage, head: bytes) -> None:
        self._last = passage
        self._path.took(passage, head)

    def take_body(self, kind: Kind, session: Session | None, head: bytes, body: bytes) -> bool:
        """Send a request of this kind; False where no route of it fits, and nothing was done."""
        self._begun = _monotonic()
        for route in kind.routes:
            found = route.match(body)
            if found is not None:
                passage = kind.passage(route, session, head, self._path.longest)
                if not self._send(passage, body, found):
                    return False
                self._keep(passage, head)
                kind.unknown = 1
                return True
        return False

    def _send(self, passage: Passage, body: bytes, found: PatternValues) -> bool:
        now, path = self._begun, self._path
        route, session = passage.route, passage.session
        if not path.holds(route, session, now):
            return False
        identity = found[0]  # a plain one is its own key
        if session is not None and identity in session.in_flight:
            return False
        link = route.instance.pool.take_now(now)
        if link is None:
            return False
        if session is not None:
            session.in_flight[identity] = self.cancel
            route.mark(session)
        self._passage, self._link, self._body, self._identity = passage, link, body, identity
        self.is_under_way = True
        path.begin(route, now)
        self._line.deadline.set_at(now + direct_relay.PATIENCE_S, self._is_late)
        link.begin_for(self, passage.request(body, found))
        self._sent = _monotonic()
        return True

    # -- answers (`response.Taker`) ------------------------------------------------------------------------

    def take(self, data: bytes) -> bool:
        """The answer begins: pass it on where it is whole, and plain."""
        now, passage, path = _monotonic(), self._passage, self._path
        answer = passage.answer(data, self._identity, path.date.at(now))
        if answer is None:
            return False
        self._link.settle(now)
        self.is_under_way = False
        route, session = passage.route, passage.session
        if session is not None:
            session.in_flight.pop(self._identity, None)
        path.end(route)
        self._transport.write(answer)
        self._line.answered_fast(now)
        route.timings.ended(self._begun, self._sent, now, _monotonic())
        return True

    def respond(self) -> UpstreamResponse:
        """Go on the usual way."""
        self.is_under_way = False
        passage, link = self._passage, self._link
        session = passage.session
        response = UpstreamResponse(link)
        http_request = self._line.begin(
            passage.route.metadata, None if session is None else session.id, self._body
        )
        patience_s = direct_relay.PATIENCE_S if self._is_patient else 0.0
        resumed = self._path.resume(
            http_request, passage, response, begun=self._begun, sent_at=self._sent, patience_s=patience_s
        )
        self._is_patient = True
        if session is not None:
            session.in_flight[self._identity] = resumed.cancel
        return response

    def let_go(self) -> None:
        """For the connection: the client left, or does not wait for its answer."""
        self._link.let_respond()

    def cancel(self) -> None:
        """The client said that it does not want it any more."""
        session = self._passage.session
        self._link.let_respond()
        if session is not None and (cancel := session.in_flight.get(self._identity)) is not None:
            cancel()

    def _is_late(self) -> None:
        self._is_patient = False
        self._link.let_respond()
