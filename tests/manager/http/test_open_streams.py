"""Silences of many streams, filled by one timer."""

from __future__ import annotations

import asyncio

import pytest

from manager.http import open_streams
from manager.http.open_streams import KeepAlives, StreamEndings

SILENCE_S = open_streams.SILENCE_S


class Clock:
    """A loop as far as it is needed: time passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, object]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: object) -> object:
        self.timers.append((when, call))
        return call

    def pass_until(self, end: float) -> None:
        while self.timers and self.timers[0][0] <= end:
            when, call = self.timers.pop(0)
            self.now = when
            assert callable(call)
            call()
        self.now = end


class Speaker:
    """Notes when it was made to speak."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.filled: list[float] = []

    def send_keep_alive(self) -> None:
        self.filled.append(self._clock.now)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def beats(clock: Clock) -> KeepAlives:
    return KeepAlives(clock)  # as much of a loop as is needed


def test_every_silence_is_filled_in_its_time(clock: Clock, beats: KeepAlives) -> None:
    early, late = Speaker(clock), Speaker(clock)
    beats.note_written(early)
    clock.now = 5.0
    beats.note_written(late)
    assert len(clock.timers) == 1
    clock.pass_until(5.0 + 2 * SILENCE_S)
    assert early.filled == [SILENCE_S, 2 * SILENCE_S]
    assert late.filled == [SILENCE_S + 5, 2 * SILENCE_S + 5]


def test_who_speaks_is_not_silent(clock: Clock, beats: KeepAlives) -> None:
    busy, idle = Speaker(clock), Speaker(clock)
    beats.note_written(busy)
    beats.note_written(idle)
    clock.pass_until(10.0)
    beats.note_written(busy)
    clock.pass_until(20.0)
    assert (busy.filled, idle.filled) == ([], [SILENCE_S])
    clock.pass_until(10.0 + SILENCE_S)
    assert busy.filled == [10.0 + SILENCE_S]


def test_without_streams_there_is_no_timer(clock: Clock, beats: KeepAlives) -> None:
    one = Speaker(clock)
    beats.note_written(one)
    beats.remove(one)
    beats.remove(one)
    clock.pass_until(100.0)
    assert (len(beats), one.filled, clock.timers) == (0, [], [])
    beats.note_written(one)
    clock.pass_until(100.0 + SILENCE_S)
    assert one.filled == [100.0 + SILENCE_S]


async def test_it_runs_on_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_streams, "SILENCE_S", 0.01)
    spoken = asyncio.Event()
    beats = KeepAlives(asyncio.get_running_loop())

    class One:
        def send_keep_alive(self) -> None:
            spoken.set()

    beats.note_written(one := One())
    await asyncio.wait_for(spoken.wait(), 5)
    beats.remove(one)


def test_what_still_stands_is_ended_once() -> None:
    endings, ended = StreamEndings(), list[str]()
    one, other = (lambda: ended.append("one")), (lambda: ended.append("other"))
    endings.add(one)
    endings.add(other)
    endings.discard(other)
    endings.end_all()
    endings.end_all()
    assert ended == ["one"]


def test_what_begins_too_late_is_ended_at_once() -> None:
    endings, ended = StreamEndings(), list[str]()
    endings.end_all()
    endings.add(lambda: ended.append("late"))
    assert ended == ["late"]


async def test_the_end_can_be_waited_for() -> None:
    endings = StreamEndings()
    waiting = asyncio.ensure_future(endings.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    endings.end_all()
    await asyncio.wait_for(waiting, 5)
