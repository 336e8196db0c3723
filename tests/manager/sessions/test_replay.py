"""The replay buffer: which events, how many, how long."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.protocol import jsonrpc
from manager.configuration.budgets import MAX_ALL_EVENT_BYTES, MAX_SESSION_EVENT_BYTES, MAX_SESSION_EVENTS
from manager.sessions import replay
from manager.sessions.replay import (
    MAX_AGE_S,
    MAX_REQUEST,
    SERVER_STREAM,
    EventId,
    Replay,
    parse_event_id,
    stream_name,
)
from support.clock import ManualClock


@dataclass(eq=False)
class Origin:
    kept: int = 0
    lost: int = 0


def test_only_later_events_of_the_same_stream_are_replayed() -> None:
    """Nothing of a different stream, or session, is ever replayed."""
    kept, one, other = Replay(ManualClock()), Origin(), Origin()
    for number in (1, 2, 3):
        kept.keep("s", one, number, b"one %d" % number)
        kept.keep("s", other, number, b"other %d" % number)
    assert kept.after("s", one, 1) == [b"one 2", b"one 3"]
    assert kept.after("s", one, 3) == []
    assert kept.after("t", one, 0) == []


def test_the_number_of_events_of_a_session_is_limited() -> None:
    kept, origin = Replay(ManualClock()), Origin()
    for number in range(1, MAX_SESSION_EVENTS + 11):
        kept.keep("s", origin, number, b"x")
    assert len(kept.after("s", origin, 0)) == origin.kept == MAX_SESSION_EVENTS
    assert origin.lost == 10


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, MAX_SESSION_EVENT_BYTES + 10)), max_size=60))
def test_the_bytes_of_a_session_are_limited(events: list[tuple[str, int]]) -> None:
    """1 MiB a session, whatever the sizes; the newest that fits is always here."""
    kept, numbers = Replay(ManualClock()), count(1)
    origins = {name: Origin() for name in "abc"}
    for session, size in events:
        number = next(numbers)
        kept.keep(session, origins[session], number, bytes(size))
        here = kept.after(session, origins[session], 0)
        assert sum(map(len, here)) <= MAX_SESSION_EVENT_BYTES
        assert bool(kept.after(session, origins[session], number - 1)) is (size <= MAX_SESSION_EVENT_BYTES)
        assert origins[session].kept == len(here)
    assert kept.size == sum(len(one) for name in "abc" for one in kept.after(name, origins[name], 0))


def test_the_bytes_of_all_sessions_are_limited_dropping_the_idlest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MAX_ALL_EVENT_BYTES", 100)
    assert MAX_ALL_EVENT_BYTES > MAX_SESSION_EVENT_BYTES
    kept, origins = Replay(ManualClock()), {name: Origin() for name in "abc"}
    for name in ("a", "b", "a", "c"):
        kept.keep(name, origins[name], 1, bytes(30))
    assert [len(kept.after(name, origins[name], 0)) for name in "abc"] == [2, 0, 1]
    assert kept.size == 90


def test_old_events_expire_and_leave_nothing_behind() -> None:
    clock = ManualClock()
    kept, origin = Replay(clock), Origin()
    kept.keep("s", origin, 1, b"x")
    clock.now += MAX_AGE_S / 2
    kept.keep("s", origin, 2, b"y")
    clock.now += MAX_AGE_S / 2
    kept.expire()
    assert kept.after("s", origin, 0) == [b"y"]
    assert origin.lost == 1
    clock.now += MAX_AGE_S / 2
    kept.expire()
    assert (kept.size, origin.kept, kept._by_session) == (0, 0, {})


def test_the_events_of_an_ended_session_are_dropped() -> None:
    kept, origin = Replay(ManualClock()), Origin()
    kept.keep("s", origin, 1, b"x")
    kept.forget("s")
    kept.forget("never there")
    assert (kept.after("s", origin, 0), kept.size, origin.kept) == ([], 0, 0)


REQUESTS = st.one_of(st.integers(-(2**63), 2**64), st.text(max_size=12)).map(jsonrpc.dumps)


@given(request=st.one_of(st.none(), REQUESTS), number=st.integers(0, 10**9), event=st.integers(0, 10**9))
def test_an_event_id_survives_writing_and_parsing(request: bytes | None, number: int, event: int) -> None:
    if request is not None and len(request) > MAX_REQUEST:
        return
    made = EventId(stream_name("k-_Q", number, request), event)
    assert str(made).isascii() and str(made).isprintable()
    assert parse_event_id(str(made)) == made
    assert made.request == request


def test_a_server_stream_is_known_by_its_number() -> None:
    assert EventId(stream_name("a", SERVER_STREAM), 7).is_server_stream
    assert not EventId(stream_name("a", 1), 7).is_server_stream
    assert not EventId(stream_name("a", SERVER_STREAM, b"0"), 7).is_server_stream


def test_a_long_request_id_is_left_out() -> None:
    assert EventId(stream_name("a", 1, b'"' + b"x" * MAX_REQUEST + b'"'), 1).request is None


@pytest.mark.parametrize(
    "text",
    ["", "-", "7", "a.1", "a.1-", "a.1-x", "a.x-1", "a.1.-1", "a.1-1\n", "é.1-1", "a.1-²", "a.1-" + "9" * 16,
     "a" * 33 + ".1-1", "a.1." + "b" * 89 + "-1", "0 or 1=1", "a.1.b.c-1"],
)  # fmt: skip
def test_other_texts_are_not_event_ids(text: str) -> None:
    assert parse_event_id(text) is None


@pytest.mark.parametrize("request_part", ["!!!", "e30", "bnVsbA", "MS41", "IgE", "A", "_w"])
def test_an_invalid_request_id_is_ignored(request_part: str) -> None:
    """`e30` is {}, `bnVsbA` null, `MS41` 1.5: no ids of requests."""
    assert EventId(f"a.1.{request_part}", 1).request is None
