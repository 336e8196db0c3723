"""Large events are forwarded unchanged or without the trim, however the pieces fall."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.forwarding.answer import COLLECTED, InterruptedAnswerError
from manager.http.request import HttpRequest
from manager.relay.large_event import EventAsJson, EventPassedThrough, LargeEvent
from protocol import sse
from protocol.internal import result_trim
from protocol.internal.result_trim import ResultTrim
from support.servers.scripted_answers import SERVER

FIELDS = {"X-A": "b"}
LIMIT = 600_000
LARGE = 300_000


class Client:
    """A fake `HttpRequest` that records what was written."""

    def __init__(self) -> None:
        self.heads: list[tuple[Any, ...]] = []
        self.got = b""
        self.is_full = False
        self.has_all = False

    def start(self, *said: Any) -> None:
        assert not self.heads
        *head, begin = said
        self.heads.append(tuple(head))
        self.put(begin)

    def put(self, *pieces: bytes) -> bool:
        assert any(pieces)
        assert self.heads
        self.got += b"".join(pieces)
        return not self.is_full

    def finish(self, last: bytes = b"") -> None:
        self.got += last
        self.has_all = True

    def respond(
        self, status: int, body: bytes, fields: Mapping[str, str], kind: str = "application/json"
    ) -> None:
        assert not self.heads
        self.heads.append((status, fields, kind))
        self.got, self.has_all = body, True

    def when_writable(self, call: Callable[[], None]) -> None:
        self.waiting = call


def stream_of(size: int) -> tuple[bytes, bytes, ResultTrim]:
    """An event with a text of this size, the response for a session client, and the trim."""
    content = {"content": [{"type": "text", "text": "x" * size}]}
    result = json.dumps(
        {"resultType": "complete", **content, "_meta": SERVER}, separators=(",", ":")
    ).encode()
    left = json.dumps(content, separators=(",", ":")).encode()
    said = result_trim.compute_trim(result, 0, len(result))
    assert said is not None
    response = b'{"jsonrpc":"2.0","id":7,"result":%b}'
    return sse.encode(response % result, comment=said.comment), response % left, said


def sink(client: Client, said: ResultTrim, *, is_json: bool = True) -> LargeEvent:
    form = EventAsJson if is_json else EventPassedThrough
    return form(cast("HttpRequest", client), FIELDS, identity=b"7", trim=said, limit=LIMIT)


def put_pieces(stream: bytes, sink_made: LargeEvent, cuts: list[int]) -> LargeEvent:
    edges = sorted({0, len(stream), *(cut % len(stream) for cut in cuts)})
    for first, last in itertools.pairwise(edges):
        sink_made.put(memoryview(stream)[first:last])
    return sink_made


CUTS = st.lists(st.integers(0, LARGE) | st.integers(COLLECTED, COLLECTED + 9) | st.integers(-200, -1))


@pytest.mark.parametrize("size", [0, 1000, LARGE])
@given(cuts=CUTS)
def test_a_session_client_gets_json_without_the_trim(size: int, cuts: list[int]) -> None:
    stream, left, said = stream_of(size)
    client = Client()
    sink_made = sink(client, said)
    done: list[bytes] = []
    sink_made.on_complete = lambda: done.append(client.got)
    put_pieces(stream, sink_made, cuts)
    assert done == [client.got] == [left], "before the body has come to its end"
    assert sink_made.put(b": more\n\n"), "bytes after the event are dropped"
    sink_made.finish()
    assert client.has_all
    assert client.got == left
    assert client.heads == [(200, FIELDS, "application/json", *([None] if size == LARGE else []))]


@pytest.mark.parametrize("size", [0, 1000, LARGE])
@given(cuts=CUTS)
def test_a_stateless_client_gets_the_stream_unchanged(size: int, cuts: list[int]) -> None:
    stream, _, said = stream_of(size)
    client = Client()
    put_pieces(stream, sink(client, said, is_json=False), cuts).finish()
    assert client.has_all
    assert client.got == stream
    fields = {**FIELDS, "X-Accel-Buffering": "no"}
    assert client.heads == [(200, fields, "text/event-stream", None)]


@pytest.mark.parametrize("is_json", [True, False])
@given(cuts=CUTS)
def test_an_event_without_an_end_is_not_completed(is_json: bool, cuts: list[int]) -> None:
    stream, left, said = stream_of(LARGE)
    for count in (1, 2, 3, 4, said.last + 4, 1000):
        client = Client()
        sink_made = put_pieces(stream[:-count], sink(client, said, is_json=is_json), cuts)
        with pytest.raises(InterruptedAnswerError):
            sink_made.finish()
        assert not client.has_all
        assert (left if is_json else stream).startswith(client.got)


@pytest.mark.parametrize(
    "other",
    [b'data: {"jsonrpc":"2.0","id":8,"result":{}}\n\n', b"data: 1\n\ndata: 2\n\n", b": keep-alive\n\n", b""],
)
@pytest.mark.parametrize("is_json", [True, False])
def test_a_small_stream_with_another_message_is_not_written(is_json: bool, other: bytes) -> None:
    client = Client()
    sink_made = sink(client, ResultTrim(0, 0), is_json=is_json)
    if other:
        sink_made.put(other)
    with pytest.raises(InterruptedAnswerError) as caught:
        sink_made.finish()
    assert caught.value.refusal.message == "the workspace server's answer holds no response"
    assert sink_made.buffered == ([other] if other else []), "for the task that continues"
    assert not client.heads


def test_a_stream_above_the_limit_is_refused() -> None:
    stream, _, said = stream_of(LIMIT)
    with pytest.raises(InterruptedAnswerError) as caught:
        put_pieces(stream, sink(Client(), said), [])
    assert caught.value.refusal.message == "response too large: more than 585 KiB"


def test_back_pressure_is_reported_while_nothing_is_written() -> None:
    stream, _, said = stream_of(LARGE)
    client = Client()
    client.is_full = True
    sink_made = sink(client, said)
    assert sink_made.put(stream[:COLLECTED]), "nothing is written yet"
    assert not sink_made.put(stream[COLLECTED:-20])
    assert not sink_made.put(stream[-20:-19])
    client.is_full = False
    assert sink_made.put(stream[-19:-18])
