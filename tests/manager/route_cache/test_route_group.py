"""Which routes a kind of calls has, and which connections take one alike."""

from __future__ import annotations

from typing import cast
from unittest.mock import Mock

from manager.route_cache.cached_route import CachedRoute
from manager.route_cache.route_group import MAX_GROUP_ROUTES, RouteGroup
from support.clients import exchanges

HEAD = b"POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n"
LONGER = HEAD.replace(b": 2", b": 13")


def route() -> CachedRoute:
    return cast("CachedRoute", Mock(CachedRoute))


def test_connections_share_a_bound_route_in_one_session_and_in_none() -> None:
    group, known, session = RouteGroup(), route(), exchanges.session_of()
    group.add(known, replaces=None)
    alone = group.bound_route(known, None, HEAD, 100)
    assert group.bound_route(known, None, LONGER, 100) is alone
    own = group.bound_route(known, session, HEAD, 100)
    assert own is not alone
    assert own.session is session
    assert group.bound_route(known, session, HEAD, 100) is own


def test_sessions_that_say_the_same_share_none() -> None:
    group, known = RouteGroup(), route()
    group.add(known, replaces=None)
    one, other = exchanges.session_of(), exchanges.session_of()
    mine = group.bound_route(known, one, HEAD, 100)
    assert group.bound_route(known, other, HEAD, 100).session is other
    assert mine.session is one


def test_a_shared_bound_route_knows_the_heads_of_calls_of_all_lengths() -> None:
    group, known = RouteGroup(), route()
    group.add(known, replaces=None)
    made = group.bound_route(known, None, HEAD, 100)
    for head, body in ((HEAD, b"{}"), (LONGER, b'{"longer": 1}')) * 2:
        assert made.heads.match(head + body) == (len(head), b"")


def test_a_route_that_does_not_hold_is_replaced_and_its_bound_route_with_it() -> None:
    group, old, new, neighbour = RouteGroup(), route(), route(), route()
    for one in (old, neighbour):
        group.add(one, replaces=None)
    before = group.bound_route(old, None, HEAD, 100)
    group.add(new, replaces=old)
    assert list(group.routes) == [neighbour, new]
    assert group.bound_route(new, None, HEAD, 100) is not before


def test_the_oldest_route_makes_room() -> None:
    group, routes = RouteGroup(), [route() for _ in range(MAX_GROUP_ROUTES + 2)]
    for one in routes:
        group.add(one, replaces=None)
    assert list(group.routes) == routes[2:]


def test_what_replaces_a_route_that_was_forgotten_is_cached_all_the_same() -> None:
    group, forgotten, new = RouteGroup(), route(), route()
    group.add(new, replaces=forgotten)
    assert list(group.routes) == [new]
