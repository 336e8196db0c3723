"""The splitter of event streams returns complete events and detects the response, however pieces fall."""

from __future__ import annotations

import pytest

from manager.forwarding.answer import COLLECTED
from manager.forwarding.forwarded_call import InterruptedAnswerError
from manager.relay.event_relay import EventSplitter

LIMIT = 1024 * 1024
NOTE = b'event: message\ndata: {"jsonrpc":"2.0","method":"m"}'
RESPONSE = b'id: 7\ndata: {"jsonrpc":"2.0","id":1,"result":{}}'
COMMENT = b": no data"


def pieces(whole: bytes, size: int) -> list[bytes]:
    return [whole[start : start + size] for start in range(0, len(whole), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_only_complete_events_are_returned_with_all_their_bytes(size: int, end: bytes) -> None:
    parts = [part.replace(b"\n", end) + end + end for part in (COMMENT, NOTE, RESPONSE)]
    edges = {sum(map(len, parts[:count])) for count in range(4)}
    events, out = EventSplitter(b"1", LIMIT), b""
    for piece in pieces(b"".join(parts), size):
        out += b"".join(events.take(piece))
        assert len(out) in edges
    assert out == b"".join(parts)
    assert events.size == 0


def test_an_incomplete_event_is_withheld() -> None:
    events = EventSplitter(b"1", LIMIT)
    assert events.take(NOTE) == []
    assert events.size == len(NOTE)
    assert events.take(b"\n\n" + RESPONSE) == [NOTE + b"\n\n"]
    assert events.size == len(RESPONSE)
    assert not events.is_answered


@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize(
    ("parts", "answered"),
    [
        ([], False),
        ([NOTE], False),
        ([RESPONSE], True),
        ([NOTE, RESPONSE, COMMENT], True),
        ([b'data: {"jsonrpc":"2.0",\ndata: "id":1,"result":{}}'], True),
        ([b'data: {"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}'], True),
        ([b"data: [DONE]"], False),
    ],
)
def test_the_response_is_detected_among_the_events(parts: list[bytes], answered: bool, size: int) -> None:
    """A client gets exactly one response."""
    events = EventSplitter(b"1", LIMIT)
    for piece in pieces(b"".join(part + b"\n\n" for part in parts), size):
        events.take(piece)
    assert events.is_answered is answered


BIG = b'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"text":"' + b"x" * COLLECTED


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("seam", range(-1, 5))
def test_a_large_response_is_returned_before_it_is_complete(end: bytes, seam: int) -> None:
    """Its end is found wherever pieces begin, and later events are withheld as usual."""
    begun = NOTE.replace(b"\n", end) + end + end + BIG.replace(b"\n", end)
    rest = b'"}}' + end + end
    cut = len(rest) - len(end + end) + seam
    events = EventSplitter(b"1", LIMIT)
    assert b"".join(events.take(begun)) == begun
    assert events.is_open
    assert not events.is_answered
    out = b"".join(events.take(rest[:cut]))
    assert events.is_open is (cut < len(rest))
    out += b"".join(events.take(rest[cut:] + NOTE[:5])) if seam < 4 else b""
    assert out == rest
    assert not events.is_open
    assert events.is_answered


@pytest.mark.parametrize(
    "begun",
    [
        BIG.replace(b'"id":1', b'"method":"m"'),
        BIG.replace(b'"id":1,', b""),
        BIG.replace(b'"id":1', b'"id":null'),
        BIG.replace(b'"result"', b'"params"'),
        BIG.replace(b'"2.0"', b'"1.0"'),
        b"x" * COLLECTED,
    ],
)
def test_a_large_event_without_a_known_beginning_is_withheld(begun: bytes) -> None:
    events = EventSplitter(b"1", LIMIT)
    assert events.take(begun) == []
    assert events.size == len(begun)
    assert events.take(b"\n\n") == [begun + b"\n\n"]


def test_a_small_incomplete_response_is_withheld() -> None:
    """It can still be replaced if the server dies."""
    events = EventSplitter(b"1", LIMIT)
    assert events.take(BIG[: COLLECTED - 1]) == []
    assert b"".join(events.take(b"xx")) == BIG[: COLLECTED - 1] + b"xx"


def test_no_part_of_an_event_above_the_limit_is_returned() -> None:
    """It can still be refused."""
    assert EventSplitter(b"1", len(BIG) - 1).take(BIG) == []


@pytest.mark.parametrize("begun", [RESPONSE + b"\n\n", BIG])
@pytest.mark.parametrize("before", [b"", NOTE + b"\n\n"])
def test_the_response_to_another_request_raises(before: bytes, begun: bytes) -> None:
    events = EventSplitter(b"2", LIMIT)
    with pytest.raises(InterruptedAnswerError) as caught:
        events.take(before + begun)
    assert caught.value.refusal.delivered == "unknown"
    assert not events.is_answered
