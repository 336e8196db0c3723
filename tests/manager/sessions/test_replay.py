"""The replay buffer: which events, how many, how long."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.configuration.budgets import MAX_ALL_EVENT_BYTES, MAX_SESSION_EVENT_BYTES, MAX_SESSION_EVENTS
from manager.sessions import replay
from manager.sessions.replay import MAX_AGE_S, Replay
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
