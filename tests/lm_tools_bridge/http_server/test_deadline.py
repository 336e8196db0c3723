"""Deadlines of many connections: each met in its time, by one timer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lm_tools_bridge.http_server.deadline import GRAIN_S, Deadline, Deadlines


class Timer:
    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at = at
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Clock:
    """A loop as far as it is needed: time passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, call: Callable[[], None]) -> Timer:
        self.timers.append(timer := Timer(at, call))
        return timer

    def pending(self) -> list[Timer]:
        return sorted((one for one in self.timers if not one.is_cancelled), key=lambda one: one.at)

    def pass_(self, seconds: float) -> None:
        end = self.now + seconds
        while (timers := self.pending()) and timers[0].at <= end:
            self.now = max(self.now, timers[0].at)
            self.timers.remove(timers[0])
            timers[0].call()
        self.now = end


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def deadlines(clock: Clock) -> Deadlines:
    return Deadlines(clock)  # as much of a loop as is needed


def test_each_is_met_once_in_its_time(clock: Clock, deadlines: Deadlines) -> None:
    met: list[tuple[str, float]] = []
    for name, seconds in (("c", 3.0), ("a", 1.0), ("b", 2.0)):
        Deadline(deadlines).set(seconds, lambda name=name: met.append((name, clock.now)))
        assert len(clock.pending()) == 1
    clock.pass_(10)
    assert met == [("a", 101.0), ("b", 102.0), ("c", 103.0)]
    assert clock.pending() == []


def test_only_the_last_expectation_counts(clock: Clock, deadlines: Deadlines) -> None:
    one, met = Deadline(deadlines), list[str]()
    one.set(1, lambda: met.append("early"))
    one.set(5, lambda: met.append("late"))
    clock.pass_(4.9)
    assert met == []
    clock.pass_(0.2)
    assert met == ["late"]


@pytest.mark.parametrize("end", [Deadline.clear, Deadline.close])
def test_what_is_dropped_is_never_met(
    clock: Clock, deadlines: Deadlines, end: Callable[[Deadline], None]
) -> None:
    one, met = Deadline(deadlines), list[str]()
    one.set(1, lambda: met.append("met"))
    end(one)
    clock.pass_(10)
    assert met == []


def test_calls_in_quick_succession_need_no_timers(clock: Clock, deadlines: Deadlines) -> None:
    one = Deadline(deadlines)
    for _ in range(100):
        one.set(1, lambda: None)
        one.set(75, lambda: None)
        clock.now += 0.001
    assert len(clock.timers) == 1


def test_one_that_is_met_may_end_another_and_expect_something_itself(
    clock: Clock, deadlines: Deadlines
) -> None:
    first, second, met = Deadline(deadlines), Deadline(deadlines), list[str]()

    def meet(name: str, other: Deadline) -> None:
        met.append(name)
        other.close()
        (second if other is first else first).set(1, lambda: met.append("again"))

    first.set(1, lambda: meet("met", second))
    second.set(1, lambda: meet("met", first))
    clock.pass_(10)
    assert met == ["met", "again"]


def test_a_fault_in_one_is_not_at_the_cost_of_the_others(clock: Clock, deadlines: Deadlines) -> None:
    def fail() -> None:
        raise RuntimeError

    met: list[int] = []
    for number in range(3):
        Deadline(deadlines).set(1, lambda number=number: met.append(number))
        Deadline(deadlines).set(1, fail)
    for _ in range(10):
        try:
            clock.pass_(1)
        except RuntimeError:
            continue
    assert sorted(met) == [0, 1, 2]


def test_many_that_end_shortly_after_each_other_are_looked_for_together(
    clock: Clock, deadlines: Deadlines
) -> None:
    """Looking takes its time where there are thousands."""
    met: list[float] = []
    for number in range(1000):
        Deadline(deadlines).set(1 + number / 1000, lambda: met.append(clock.now))
    clock.pass_(3)
    assert len(met) == 1000
    assert len(set(met)) <= 1 / GRAIN_S + 2
    assert max(met) <= 102 + GRAIN_S
