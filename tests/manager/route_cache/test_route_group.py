"""A route group limits its routes, and shares bound routes between connections."""

from __future__ import annotations

from typing import cast
from unittest.mock import Mock

from manager.route_cache.cached_route import CachedRoute
from manager.route_cache.route_cache import MAX_GROUP_ROUTES, RouteGroup
from support.clients import exchanges

HEAD = b"POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n"
LONGER = HEAD.replace(b": 2", b": 13")


def route() -> CachedRoute:
    return cast("CachedRoute", Mock(CachedRoute))


def test_connections_of_a_session_or_without_one_share_a_bound_route() -> None:
    group, known, session = RouteGroup(), route(), exchanges.session_of()
    group.add(known, replaces=None)
    alone = group.bound_route(known, None, HEAD, 100)
    assert group.bound_route(known, None, LONGER, 100) is alone
    own = group.bound_route(known, session, HEAD, 100)
    assert own is not alone
    assert own.session is session
    assert group.bound_route(known, session, HEAD, 100) is own


def test_sessions_with_the_same_profile_share_no_bound_route() -> None:
    group, known = RouteGroup(), route()
    group.add(known, replaces=None)
    one, other = exchanges.session_of(), exchanges.session_of()
    mine = group.bound_route(known, one, HEAD, 100)
    assert group.bound_route(known, other, HEAD, 100).session is other
    assert mine.session is one


def test_a_shared_bound_route_matches_heads_of_all_lengths() -> None:
    group, known = RouteGroup(), route()
    group.add(known, replaces=None)
    made = group.bound_route(known, None, HEAD, 100)
    for head, body in ((HEAD, b"{}"), (LONGER, b'{"longer": 1}')) * 2:
        assert made.heads.match(head + body) == (len(head), b"")


def test_an_invalid_route_is_replaced_with_its_bound_route() -> None:
    group, old, new, neighbour = RouteGroup(), route(), route(), route()
    for one in (old, neighbour):
        group.add(one, replaces=None)
    before = group.bound_route(old, None, HEAD, 100)
    group.add(new, replaces=old)
    assert list(group.routes) == [neighbour, new]
    assert group.bound_route(new, None, HEAD, 100) is not before


def test_a_full_group_drops_its_oldest_route() -> None:
    group, routes = RouteGroup(), [route() for _ in range(MAX_GROUP_ROUTES + 2)]
    for one in routes:
        group.add(one, replaces=None)
    assert list(group.routes) == routes[2:]


def test_the_replacement_of_a_dropped_route_is_cached() -> None:
    group, forgotten, new = RouteGroup(), route(), route()
    group.add(new, replaces=forgotten)
    assert list(group.routes) == [new]
