"""Caches how a `tools/call` was routed, and checks that a cached route is still valid.

The second call with the same head that the direct relay answers leaves a cached route. Later calls are
compared with the route (`cached_route.py`) and sent (`cached_calls.py`). A call that does not match is
parsed; one whose response does not match falls back to the direct relay. Both paths write the same bytes.
The routes of calls with one request head, in sessions with the same profile, are one group.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any, Final, Protocol

from lm_tools_bridge.http_server.request import DateLine
from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.call_pattern import PLAIN_VALUES, Pattern, PatternValues, derive_pattern
from lm_tools_bridge.protocol.inbound import Inbound, classify
from lm_tools_bridge.protocol.jsonrpc import Request
from manager.answers.exchange import (
    Exchange,
    brought_trace,
    claims_of,
    client_record,
    exchange_of,
)
from manager.answers.upstream_request import PreparedCall, upstream_request
from manager.answers.workspace_lookup import cached_folders, look_up_cached
from manager.call_observer import CallOrigin
from manager.configuration.budgets import MAX_ROUTES
from manager.configuration.settings import Settings
from manager.forwarding.forward import Forwarder, Outgoing
from manager.forwarding.forwarded_call import ForwardedCall
from manager.http.request import HttpRequest, OpenRequests
from manager.relay.direct_relay import DirectRelay
from manager.route_cache.bound_route import BoundRoute, HeadPattern
from manager.route_cache.cached_route import RECORD_INTERVAL_S, CachedRoute, SessionProfile
from manager.routing.client_profiles import ClientProfiles
from manager.routing.request_metadata import RequestMetadata
from manager.routing.state.clients import RecentClients
from manager.routing.state.session_table import Session, SessionTable
from manager.supervision.workspaces import Workspaces

MAX_GROUP_ROUTES: Final = 32
"""Routes of one group. A session client's calls need one for each tool, as their heads do not name it."""
CACHED_MISSES: Final = 32
"""Misses in a row that are all cached. A client may have so many tools in a group (`MAX_GROUP_ROUTES`), each
of which misses first."""
MISS_INTERVAL: Final = 64
"""After CACHED_MISSES misses in a row, only every MISS_INTERVAL-th miss is cached.

Some clients write something new into each call; caching all of these costs more than it saves.
"""


class RouteGroup:
    """The routes of one group of calls.

    Attributes:
        misses: calls in a row without a matching route; a match resets the count to 1.
    """

    __slots__ = ("_bound", "_heads", "misses")

    def __init__(self) -> None:
        self._bound: dict[CachedRoute, BoundRoute | None] = {}
        self._heads: HeadPattern | None = None
        self.misses = 0

    @property
    def routes(self) -> Collection[CachedRoute]:
        """The routes, oldest first: one for each tool and each form of its calls."""
        return self._bound.keys()

    def is_worth_caching(self) -> bool:
        """Count a miss; return whether the route of its call should be cached."""
        count, self.misses = self.misses, self.misses + 1
        return bool(count) and (count < CACHED_MISSES or not count % MISS_INTERVAL)

    def add(self, route: CachedRoute, replaces: CachedRoute | None) -> None:
        """Add a route; drop the invalid one that it replaces or, if the group is full, the oldest."""
        if replaces is not None:
            self._bound.pop(replaces, None)
        elif len(self._bound) >= MAX_GROUP_ROUTES:
            del self._bound[next(iter(self._bound))]
        self._bound[route] = None

    def bound_route(
        self, route: CachedRoute, session: Session | None, head: bytes, longest: int
    ) -> BoundRoute:
        """Bind one of the routes to a session, or reuse its last binding if that is for the same session.

        All connections of a session share a bound route, and so do all stateless clients: shared data stay in
        the processor's cache.

        Args:
            head: the head of a call, as received.
            longest: largest body in bytes that admission allows.
        """
        last = self._bound[route]
        if last is None or last.session is not session:
            heads = self._heads = self._heads or HeadPattern(head, longest)
            last = self._bound[route] = BoundRoute(route, session, heads)
        return last


MAX_GROUPS: Final = 1024
"""Route groups and request lines that are kept; when full, all are dropped."""
LONGEST_LINE: Final = 512
"""Longest request line that is remembered, in bytes."""


class Endpoint(Protocol):
    """The endpoint that answers parsed requests."""

    open_requests: OpenRequests

    def relay_directly(self, http_request: HttpRequest, call: PreparedCall, patience_s: float) -> DirectRelay:
        """Relay the response to a call that was sent; after `patience_s` seconds, in a task."""


class RouteCache:
    """The cached routes of a manager.

    Attributes:
        groups: route groups by request metadata and session profile (None for stateless clients).
        longest: largest body in bytes that admission allows.
        date: the `Date` line of responses.
        open_requests: the requests that are not answered yet.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        workspaces: Workspaces,
        sessions: SessionTable,
        clients: RecentClients,
        forwarder: Forwarder,
        settings: Settings,
        profiles: ClientProfiles,
    ) -> None:
        self.groups: dict[tuple[RequestMetadata, SessionProfile | None], RouteGroup] = {}
        self.longest = settings.body_limit
        self.date = DateLine()
        self._cached_count = 0
        self._recent: dict[bytes, BoundRoute] = {}  # the route of the last call, by request line
        self._admission = forwarder.admission
        self._endpoint = endpoint
        self.open_requests = endpoint.open_requests
        self._workspaces = workspaces
        self._sessions = sessions
        self._clients = clients
        self._forwarder = forwarder
        self._profiles = profiles
        self._makes_traces = forwarder.is_observed and settings.make_trace_context

    # -- a call --------------------------------------------------------------------------------------------

    def find(
        self, metadata: RequestMetadata, session: str | None
    ) -> tuple[Session | None, RouteGroup] | None:
        """The session with this id, and its route group for calls with this metadata; None if unknown."""
        named = None if session is None else self._sessions.peek(session)
        if session is not None and named is None:
            return None
        group = self.groups.get((metadata, None if named is None else SessionProfile.of(named)))
        return None if group is None else (named, group)

    def bound_route(self, last: BoundRoute, identity: bytes) -> BoundRoute | None:
        """The last call's route bound to the session of a request; None if its profile is different.

        Args:
            last: the route of the last call.
            identity: the session id in the request; empty if its head pattern contains no id.
        """
        if last.session is None or not identity or identity == last.session.id.encode():
            return last
        session = self._sessions.peek(identity.decode())
        if session is None or SessionProfile.of(session) != last.route.profile:
            return None
        return BoundRoute(last.route, session, last.heads)

    def recent(self, data: bytes) -> BoundRoute | None:
        """The route of the last call with the request line of `data`; None if unknown."""
        return self._recent.get(_request_line(data))

    def remember(self, bound: BoundRoute, head: bytes) -> None:
        """Remember the route of a call that was sent, by its request line."""
        line = _request_line(head)
        if line and self._recent.get(line) is not bound:
            if len(self._recent) >= MAX_GROUPS:
                self._recent.clear()
            self._recent[line] = bound

    def is_valid(self, route: CachedRoute, session: Session | None, now: float) -> bool:
        """Whether the route can be used for a call at monotonic time `now`.

        The session, its profile and the server must be the same, and admission must have room.
        """
        workspace, profile = route.located.workspace, route.profile
        if session is not None and (
            profile is None
            or self._sessions.get(session.id, now) is not session
            or not profile.is_current(session)
            or session.list_due
        ):
            return False
        for text, placement in route.folders:
            if self._workspaces.cached(text) != placement:
                return False
        if self._admission.is_full(route.figures) or self._forwarder.copies_contents(workspace):
            return False
        return self._workspaces.ready_now(workspace, now, is_pure=route.is_pure) is route.instance

    def begin(
        self, route: CachedRoute, values: PatternValues, session: str | None, now: float, made_trace: int
    ) -> ForwardedCall:
        """Count and record a call of this route, with these values and trace, that begins at time `now`."""
        origin = None
        if route.label is not None:
            trace, sent = route.trace, len(values[1])
            if len(values) != PLAIN_VALUES and not made_trace:
                trace = b" ".join(values[PLAIN_VALUES:]).decode()
            origin = CallOrigin(route.label, session, now, sent, trace, made_trace)
        call = ForwardedCall(
            self._admission, route.figures, values[0], is_tool_call=True, began=now, origin=origin
        )
        if now - route.recorded_at >= RECORD_INTERVAL_S:
            self._clients.record(route.client, route.record(now))
        return call

    def fall_back(
        self, http_request: HttpRequest, bound: BoundRoute, call: ForwardedCall, patience_s: float
    ) -> None:
        """Parse a call that was sent, and let the direct relay continue it."""
        route = bound.route
        exchange = _exchange(route.metadata, http_request.body, bound.session, self._profiles)
        assert exchange is not None  # noqa: S101  the body matched a pattern, so it is valid
        exchange.observed_client = route.client if self._forwarder.is_observed else None
        exchange.decided(route.located)
        prepared = PreparedCall(self._forwarder, exchange, route.located, sent=call)
        self.open_requests.end(bound.session, call.identity)
        self._endpoint.relay_directly(http_request, prepared, patience_s)

    # -- routes --------------------------------------------------------------------------------------------

    def offer(self, http_request: HttpRequest, call: PreparedCall) -> None:
        """Cache the route of a call whose response is about to be written, unless a valid one is cached."""
        exchange = call.exchange
        if not exchange.is_tool_call or not http_request.is_repeatable:
            return
        session = exchange.session
        group = self._group(http_request.metadata, session)
        known = next((each for each in group.routes if each.match(http_request.body) is not None), None)
        if known is not None and self.is_valid(known, session, time.monotonic()):
            return
        if not group.is_worth_caching():
            return
        route = self._route(http_request.metadata, call)
        if route is not None:
            if self._cached_count >= MAX_ROUTES:
                self._clear()
                group = self._group(http_request.metadata, session)
            count = len(group.routes)
            group.add(route, replaces=known)
            self._cached_count += len(group.routes) - count

    def _group(self, metadata: RequestMetadata, session: Session | None) -> RouteGroup:
        by = metadata, None if session is None else SessionProfile.of(session)
        group = self.groups.get(by)
        if group is None:
            if len(self.groups) >= MAX_GROUPS:
                self._clear()
            group = self.groups[by] = RouteGroup()
        return group

    def _clear(self) -> None:
        self.groups.clear()
        self._recent.clear()
        self._cached_count = 0

    def _route(self, metadata: RequestMetadata, call: PreparedCall) -> CachedRoute | None:
        exchange = call.exchange
        session, workspace = exchange.session, call.located.workspace
        if session is not None and claims_of(metadata, session) != exchange.claims:
            return None  # the session chose another workspace after the call arrived
        located = look_up_cached(self._workspaces, exchange.claims)
        if located is None or located.workspace is not workspace:
            return None  # likewise, for a cached call, which was parsed only after it was sent
        instance = self._workspaces.ready_now(workspace, time.monotonic(), is_pure=located.is_pure)
        patterns = _patterns(metadata, call, self._profiles)
        folders = cached_folders(self._workspaces, exchange.claims)
        if instance is None or patterns is None or folders is None:
            return None
        request = call.outgoing
        return CachedRoute(
            metadata,
            exchange,
            call.located,
            instance,
            patterns=patterns,
            upstream=instance.pool.lasting_head(
                b"POST", request.target, (*request.headers, instance.credentials())
            ),
            client=client_record(exchange, time.monotonic())[0],
            folders=folders,
            origin=request.origin,
            makes_traces=self._makes_traces and not brought_trace(exchange),
        )


def _patterns(
    metadata: RequestMetadata, call: PreparedCall, profiles: ClientProfiles
) -> tuple[Pattern, Pattern | None] | None:
    """The patterns of the client's bodies and of the server's; the latter is None if both are the same.

    Returns:
        None if a probe with other id and arguments would be routed or rewritten in another way.
    """
    exchange = call.exchange
    derived = derive_pattern(exchange.message.body)
    if derived is None:
        return None
    pattern, probe = derived
    other = _exchange(metadata, probe, exchange.session, profiles)
    if other is None or other.claims != exchange.claims:
        return None
    other.decided(call.located)
    sent, other_sent = call.outgoing, upstream_request(other)
    if _without_body(sent) != _without_body(other_sent):
        return None
    if sent.body == exchange.message.body and other_sent.body == probe:
        return pattern, None
    written = derive_pattern(sent.body)
    if written is None or written[0].probe != pattern.probe or written[1] != other_sent.body:
        return None
    return pattern, written[0]


def _request_line(data: bytes) -> bytes:
    return data[: max(0, data.find(b"\r", 0, LONGEST_LINE))]


def _without_body(sent: Outgoing) -> tuple[Any, ...]:
    return sent.method, tuple(sent.headers), sent.target, sent.timed


def _exchange(
    metadata: RequestMetadata, body: bytes, session: Session | None, profiles: ClientProfiles
) -> Exchange | None:
    inbound = classify(metadata.fields, body)
    if not isinstance(inbound, Inbound) or not isinstance(inbound.message, Request):
        return None
    exchange = exchange_of(metadata, inbound, inbound.message, session, profiles)
    if session is not None:
        exchange.headers[headers.SESSION] = session.id
    return exchange
