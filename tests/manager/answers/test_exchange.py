"""Who sent a request: its connection, and the number of a trace context that the manager begins."""

from __future__ import annotations

from lm_tools_bridge.protocol.trace_context import make_traceparent
from manager.answers.exchange import client_record, make_trace_number
from manager.routing.state.clients import Peer
from support.clients import exchanges


def test_numbers_are_random_and_fit_into_a_column() -> None:
    numbers = [make_trace_number() for _ in range(1000)]
    assert len(set(numbers)) == 1000
    assert max(numbers) > 1 << 62  # each bit is used
    assert all(0 < one < 1 << 63 for one in numbers)


def test_contexts_differ_from_call_to_call() -> None:
    contexts = {make_traceparent(make_trace_number()) for _ in range(1000)}
    halves = [{one[begin : begin + 16] for one in contexts} for begin in (3, 19)]
    assert [len(one) for one in (contexts, *halves)] == [1000, 1000, 1000]


def test_a_request_and_its_session_remember_their_connection() -> None:
    exchange = exchanges.legacy(exchanges.call("t", {}))
    peer = Peer((("127.0.0.1", 1), ("127.0.0.1", 2)))
    assert client_record(exchange, 1.0, peer)[1].peer is peer
    assert exchange.session is not None
    assert exchange.session.peer is peer


def test_a_connection_without_addresses_leaves_that_of_the_session() -> None:
    peer = Peer((("127.0.0.1", 1), ("127.0.0.1", 2)))
    session = exchanges.session_of(peer=peer)
    exchange = exchanges.legacy(exchanges.call("t", {}), session=session)
    assert client_record(exchange, 1.0, None)[1].peer is None
    assert session.peer is peer
