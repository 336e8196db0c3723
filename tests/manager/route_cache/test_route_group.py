"""Which routes a kind of calls has, and which connections take one alike."""

from __future__ import annotations

from typing import cast
from unittest.mock import Mock

from manager.route_cache.cached_route import FastRoute
from manager.route_cache.route_group import TOOLS, Kind
from support.clients import exchanges

HEAD = b"POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n"
LONGER = HEAD.replace(b": 2", b": 13")


def route() -> FastRoute:
    return cast("FastRoute", Mock(FastRoute))


def test_connections_share_a_passage_in_one_session_and_in_none() -> None:
    kind, known, session = Kind(), route(), exchanges.session_of()
    kind.learn(known, instead_of=None)
    alone = kind.passage(known, None, HEAD, 100)
    assert kind.passage(known, None, LONGER, 100) is alone
    own = kind.passage(known, session, HEAD, 100)
    assert own is not alone
    assert own.session is session
    assert kind.passage(known, session, HEAD, 100) is own


def test_sessions_that_say_the_same_share_none() -> None:
    kind, known = Kind(), route()
    kind.learn(known, instead_of=None)
    one, other = exchanges.session_of(), exchanges.session_of()
    mine = kind.passage(known, one, HEAD, 100)
    assert kind.passage(known, other, HEAD, 100).session is other
    assert mine.session is one


def test_a_shared_passage_knows_the_heads_of_calls_of_all_lengths() -> None:
    kind, known = Kind(), route()
    kind.learn(known, instead_of=None)
    made = kind.passage(known, None, HEAD, 100)
    for head, body in ((HEAD, b"{}"), (LONGER, b'{"longer": 1}')) * 2:
        assert made.heads.match(head + body) == (len(head), b"")


def test_a_route_that_does_not_hold_is_replaced_and_its_passage_with_it() -> None:
    kind, old, new, neighbour = Kind(), route(), route(), route()
    for one in (old, neighbour):
        kind.learn(one, instead_of=None)
    before = kind.passage(old, None, HEAD, 100)
    kind.learn(new, instead_of=old)
    assert list(kind.routes) == [neighbour, new]
    assert kind.passage(new, None, HEAD, 100) is not before


def test_the_oldest_route_makes_room() -> None:
    kind, routes = Kind(), [route() for _ in range(TOOLS + 2)]
    for one in routes:
        kind.learn(one, instead_of=None)
    assert list(kind.routes) == routes[2:]


def test_what_replaces_a_route_that_was_forgotten_is_learned_all_the_same() -> None:
    kind, forgotten, new = Kind(), route(), route()
    kind.learn(new, instead_of=forgotten)
    assert list(kind.routes) == [new]
