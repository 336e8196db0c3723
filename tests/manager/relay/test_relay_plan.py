"""The table that chooses how a response is relayed: the kind of every combination of traits."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.protocol.internal import result_trim
from lm_tools_bridge.protocol.internal.result_trim import ResultTrim
from manager.http.request import HttpRequest
from manager.relay.relay_plan import TABLE, LargeBody, RelayKind, ResponseTraits, relay_kind
from manager.routing import legacy_result
from support.servers.scripted.scripted_answers import SERVER

ALL = [ResponseTraits(*values) for values in itertools.product([False, True], repeat=7)]
UNREAD = {RelayKind.JSON_STREAM, RelayKind.JSON_TRIMMED}


def expected(traits: ResponseTraits) -> RelayKind:
    """The choice of the table, written as rules."""
    is_known_json = traits.is_large and not traits.is_events and traits.names_id and traits.accepts_json
    if traits.is_session:
        return RelayKind.JSON_TRIMMED if is_known_json and traits.has_trim else RelayKind.SESSION
    if traits.is_events:
        return RelayKind.EVENT_RELAY if traits.accepts_events else RelayKind.COLLECTED
    return RelayKind.JSON_STREAM if is_known_json else RelayKind.COLLECTED


@pytest.mark.parametrize("traits", ALL)
def test_every_combination_of_traits_has_the_expected_kind(traits: ResponseTraits) -> None:
    kind = relay_kind(traits)
    assert kind is expected(traits)
    if kind in UNREAD:
        assert traits.names_id, "nothing unread leaves without the id that was asked"
        assert traits.accepts_json
    if kind is RelayKind.EVENT_RELAY:
        assert traits.accepts_events
        assert not traits.is_session
    if traits.is_session and kind in UNREAD:
        assert traits.has_trim


def test_every_row_of_the_table_is_used() -> None:
    """Each is the first match for some traits."""
    first = {
        next(
            number
            for number, (row, _) in enumerate(TABLE)
            if all(wanted in (None, own) for wanted, own in zip(row, traits, strict=True))
        )
        for traits in ALL
    }
    assert first == set(range(len(TABLE)))
    assert {kind for _, kind in TABLE} == set(RelayKind)


RESULT = json.dumps(
    {"resultType": "complete", "content": [{"type": "text", "text": "x" * 40_000}], "_meta": SERVER},
    separators=(",", ":"),
).encode()
BODY = b'{"jsonrpc":"2.0","id":7,"result":%b}' % RESULT
LEFT = b'{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"%b"}]}}' % (b"x" * 40_000)
FIELDS = {"X-A": "b"}


class Client:
    """A fake `HttpRequest` that records what was written."""

    def __init__(self) -> None:
        self.started: list[tuple[Any, ...]] = []
        self.got = b""
        self.is_full = False

    def start(self, *said: Any) -> None:
        assert not self.got
        *head, self.got = said
        self.started.append(tuple(head))

    def when_writable(self, call: Callable[[], None]) -> None:
        self.waiting = call

    def put(self, *pieces: bytes) -> bool:
        assert any(pieces)
        assert self.started
        self.got += b"".join(pieces)
        return not self.is_full


def sink(client: Client, said: ResultTrim, body: bytes = BODY) -> LargeBody:
    begin = legacy_result.RESULT_BEGIN % b"7"
    return LargeBody(cast("HttpRequest", client), 200, FIELDS, len(body), begin=begin, trim=said)


FIRST = len(legacy_result.RESULT_BEGIN % b"7" + result_trim.TYPE)
"""Bytes that have arrived when the sink is chosen."""
NEAR = st.integers(0, 200)
PLACES = (
    st.integers(FIRST, len(BODY) - 1)
    | NEAR.map(lambda behind: FIRST + behind)
    | NEAR.map(lambda back: len(BODY) - 1 - back)
)


@given(cuts=st.lists(PLACES, max_size=8))
def test_a_session_client_gets_the_body_without_the_trim(cuts: list[int]) -> None:
    said = result_trim.compute_trim(RESULT, 0, len(RESULT))
    assert said is not None
    client = Client()
    out = sink(client, said)
    places = [0, *sorted(set(cuts)), len(BODY)]
    for begin, end in itertools.pairwise(places):
        assert out.put(BODY[begin:end])
    assert client.got == LEFT
    assert client.started == [(200, FIELDS, "application/json", len(LEFT))]


def test_back_pressure_is_reported_for_pieces_that_are_removed() -> None:
    said = result_trim.compute_trim(RESULT, 0, len(RESULT))
    assert said is not None
    client = Client()
    out = sink(client, said)
    client.is_full = True
    assert not out.put(BODY[:-40])
    assert not out.put(BODY[-40:-30]), "amid what is cut"
    client.is_full = False
    assert out.put(BODY[-30:-20])
    assert out.put(BODY[-20:])
    assert client.got == LEFT
