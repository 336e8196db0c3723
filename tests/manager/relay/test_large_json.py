"""Large JSON results lose the trim for session clients, however the pieces fall."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.protocol.internal import result_trim
from lm_tools_bridge.protocol.internal.result_trim import ResultTrim
from manager.http.request import HttpRequest
from manager.relay.large_json import LargeBody
from manager.routing.json import forwardable_result
from support.servers.scripted.scripted_answers import SERVER

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
    begin = forwardable_result.RESULT_BEGIN % b"7"
    return LargeBody(cast("HttpRequest", client), 200, FIELDS, len(body), begin=begin, trim=said)


FIRST = len(forwardable_result.RESULT_BEGIN % b"7" + result_trim.TYPE)
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
