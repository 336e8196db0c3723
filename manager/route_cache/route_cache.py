"""Caches how a `tools/call` was routed, and checks that a cached route is still valid.

A call that the direct relay answered and whose head came for the second time leaves a cached route. A later
call is compared with it (`cached_route.py`) and sent (`cached_call.py`). Any difference makes the call fall
back to the parsed path, before it is sent or while it waits; both paths write the same bytes.
"""

from __future__ import annotations

import time
from typing import Any, Final, Protocol

from http_server.date import DateLine
from manager.answers.client_record import client_record
from manager.answers.dispatch import Sent
from manager.answers.exchange import Exchange, Located
from manager.answers.new_exchange import claims_of, exchange_of
from manager.answers.upstream_request import upstream_request
from manager.answers.workspace_lookup import look_up_cached
from manager.forwarding.forward import Forwarder, Outgoing
from manager.forwarding.forwarded_call import ForwardedCall
from manager.forwarding.open_requests import OpenRequests
from manager.http.request import HttpRequest
from manager.relay.direct_relay import DirectRelay
from manager.route_cache.bound_route import BoundRoute
from manager.route_cache.cached_route import RECORD_INTERVAL_S, CachedRoute, SessionProfile
from manager.route_cache.route_group import RouteGroup
from manager.routing.request_heads.request_metadata import RequestMetadata
from manager.routing.state.clients import RecentClients
from manager.routing.state.session_table import Session, SessionTable
from manager.routing.workspace.resolution import decisive_claim
from manager.settings import Settings
from manager.supervision.workspaces import Workspaces
from protocol import headers
from protocol.call_pattern import Pattern, derive_pattern
from protocol.inbound import Inbound, classify
from protocol.jsonrpc import Request

MAX_GROUPS: Final = 1024
"""Kinds of calls whose routes are kept, and addresses of which is known how they were called last."""
LONGEST_LINE: Final = 512
"""Bytes of a request line that is remembered."""
MAX_ROUTES: Final = 4096
"""Routes after which all are forgotten: each keeps the call it was made from."""


class Host(Protocol):
    """Who answers requests the usual way."""

    is_draining: bool
    open_requests: OpenRequests

    def relay_directly(
        self, http_request: HttpRequest, exchange: Exchange, sent: Sent, patience_s: float
    ) -> DirectRelay:
        """Go on with a call that is under way."""


class RouteCache:
    """The routes of a manager.

    Attributes:
        groups: the calls that came, by what their heads and their sessions say.
        longest: largest body in bytes that admission allows.
        date: for the heads of answers.
    """

    def __init__(
        self,
        host: Host,
        *,
        workspaces: Workspaces,
        sessions: SessionTable,
        clients: RecentClients,
        forwarder: Forwarder,
        settings: Settings,
    ) -> None:
        self.groups: dict[tuple[RequestMetadata, SessionProfile | None], RouteGroup] = {}
        self.longest = settings.body_limit
        self.date = DateLine()
        self._cached_count = 0
        self._recent: dict[bytes, BoundRoute] = {}  # by request lines: how each was called last
        self._admission = forwarder.admission
        self._host = host
        self._workspaces = workspaces
        self._sessions = sessions
        self._clients = clients
        self._forwarder = forwarder

    # -- a call --------------------------------------------------------------------------------------------

    def lookup(
        self, metadata: RequestMetadata, identity: str | None
    ) -> tuple[Session | None, RouteGroup | None]:
        """The session of this id, and what is known of calls with such a head in it."""
        if identity is None:
            return None, self.groups.get((metadata, None))
        session = self._sessions.peek(identity)
        return session, None if session is None else self.groups.get((metadata, SessionProfile.of(session)))

    def bound_route(self, last: BoundRoute, identity: bytes) -> BoundRoute | None:
        """How a session takes the route of another one, or of itself; None where its route is another.

        Args:
            identity: that its request names it by, empty where the pattern of its head says all about that.
        """
        if last.session is None or not identity or identity == last.session.id.encode():
            return last
        session = self._sessions.peek(identity.decode())
        if session is None or SessionProfile.of(session) != last.route.profile:
            return None
        return BoundRoute(last.route, session, last.heads)

    def recent(self, data: bytes) -> BoundRoute | None:
        """How the address that a request begins with was called last; None where that is not known."""
        return self._recent.get(_request_line(data))

    def remember(self, bound: BoundRoute, head: bytes) -> None:
        """A call with such a head was sent."""
        line = _request_line(head)
        if line and self._recent.get(line) is not bound:
            if len(self._recent) >= MAX_GROUPS:
                self._recent.clear()
            self._recent[line] = bound

    def is_valid(self, route: CachedRoute, session: Session | None, now: float) -> bool:
        """Whether a call of this route goes where the last one went, at monotonic time `now`."""
        if self._host.is_draining:
            return False
        workspace, profile = route.located.workspace, route.profile
        if session is not None and (
            profile is None
            or self._sessions.get(session.id, now) is not session
            or not profile.is_current(session)
        ):
            return False
        if route.folder is not None and self._workspaces.cached(route.folder) is not workspace:
            return False
        if self._admission.is_full(route.figures):
            return False
        return self._workspaces.ready_now(workspace, now) is route.instance

    def begin(self, route: CachedRoute, identity: bytes, now: float) -> ForwardedCall:
        """Begin a call of this route, at monotonic time `now`."""
        self._host.open_requests.begin()
        call = ForwardedCall(self._admission, route.figures, identity, is_tool_call=True, began=now)
        if now - route.recorded_at >= RECORD_INTERVAL_S:
            self._clients.record(route.client, route.record(now))
        return call

    def end(self, call: ForwardedCall, answered_at: float) -> None:
        """End a call whose answer was written."""
        call.end("ok", answered_at)
        self._host.open_requests.end()

    def fall_back(
        self, http_request: HttpRequest, bound: BoundRoute, call: ForwardedCall, patience_s: float
    ) -> DirectRelay:
        """Let a call go on by the path of those that are parsed."""
        route = bound.route
        exchange = _exchange(route.metadata, http_request.body, bound.session)
        assert exchange is not None  # noqa: S101  it matched a pattern, so it can be read
        exchange.decided(route.located)
        relay = self._host.relay_directly(http_request, exchange, Sent(route.located, call), patience_s)
        self._host.open_requests.end()
        return relay

    # -- routes --------------------------------------------------------------------------------------------

    def add(self, http_request: HttpRequest, exchange: Exchange, sent: Sent) -> None:
        """A call was answered that could have gone this way, or has."""
        if not exchange.is_tool_call or not http_request.is_repeatable:
            return
        session = exchange.session
        group = self._group(http_request.metadata, session)
        known = next((one for one in group.routes if one.match(http_request.body) is not None), None)
        if known is not None and self.is_valid(known, session, time.monotonic()):
            return
        if not group.is_worth_caching():
            return
        route = self._route(http_request.metadata, exchange, sent)
        if route is not None:
            if self._cached_count >= MAX_ROUTES:
                self._forget()
                self._cached_count, group = 0, self._group(http_request.metadata, session)
            group.add(route, replaces=known)
            self._cached_count += 1

    def _group(self, metadata: RequestMetadata, session: Session | None) -> RouteGroup:
        by = metadata, None if session is None else SessionProfile.of(session)
        group = self.groups.get(by)
        if group is None:
            if len(self.groups) >= MAX_GROUPS:
                self._forget()
            group = self.groups[by] = RouteGroup()
        return group

    def _forget(self) -> None:
        self.groups.clear()
        self._recent.clear()

    def _route(self, metadata: RequestMetadata, exchange: Exchange, sent: Sent) -> CachedRoute | None:
        session, workspace = exchange.session, sent.located.workspace
        if session is not None and claims_of(metadata, session) != exchange.claims:
            return None  # it chose another workspace since the call came
        located = look_up_cached(self._workspaces, exchange.claims)
        if located is None or located.workspace is not workspace:
            return None  # the same, of a call that was known: it is read only after it was sent
        instance = self._workspaces.ready_now(workspace, time.monotonic())
        claim = decisive_claim(exchange.claims)
        patterns = _patterns(metadata, exchange, sent.located)
        if instance is None or claim is None or patterns is None:
            return None
        request = upstream_request(exchange)
        return CachedRoute(
            metadata,
            exchange,
            sent.located,
            instance,
            patterns=patterns,
            upstream=self._forwarder.head(instance, request),
            client=client_record(exchange, time.monotonic())[0],
            folder=None if claim.is_id else str(claim.text),
        )


def _patterns(
    metadata: RequestMetadata, exchange: Exchange, located: Located
) -> tuple[Pattern, Pattern | None] | None:
    """How such calls come, and how they are sent on; None where another one shows that this is not so."""
    came = derive_pattern(exchange.message.body)
    if came is None:
        return None
    pattern, probe = came
    other = _exchange(metadata, probe, exchange.session)
    if other is None or other.claims != exchange.claims:
        return None
    other.decided(located)
    sent, other_sent = upstream_request(exchange), upstream_request(other)
    if _but_body(sent) != _but_body(other_sent):
        return None
    if sent.body == exchange.message.body and other_sent.body == probe:
        return pattern, None
    written = derive_pattern(sent.body)
    if written is None or written[0].probe != pattern.probe or written[1] != other_sent.body:
        return None
    return pattern, written[0]


def _request_line(data: bytes) -> bytes:
    return data[: max(0, data.find(b"\r", 0, LONGEST_LINE))]


def _but_body(sent: Outgoing) -> tuple[Any, ...]:
    return sent.method, tuple(sent.headers), sent.target, sent.timed


def _exchange(metadata: RequestMetadata, body: bytes, session: Session | None) -> Exchange | None:
    inbound = classify(metadata.fields, body)
    if not isinstance(inbound, Inbound) or not isinstance(inbound.message, Request):
        return None
    exchange = exchange_of(metadata, inbound, inbound.message, session)
    if session is not None:
        exchange.headers[headers.SESSION] = session.id
    return exchange
