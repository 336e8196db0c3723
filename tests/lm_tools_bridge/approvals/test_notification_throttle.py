"""When a person is notified: once for each thing, several in one, rarely."""

from __future__ import annotations

from lm_tools_bridge.approvals.notification_throttle import (
    FOR_APPROVALS,
    HOUR_S,
    MOST_LINES,
    MOST_PER_HOUR,
    PAUSE_S,
    REMEMBERED_S,
    Close,
    Notice,
    Throttle,
)
from manager.status_reading.attention import Attention


def thing(key: str) -> Attention:
    return Attention("approval", key, f"{key} waits", "lmtb approvals")


A, B = thing("a"), thing("b")


def test_each_thing_is_told_once() -> None:
    throttle = Throttle()
    first = throttle.next([A], 0.0)
    assert first == Notice("LM Tools Bridge needs you", "a waits: lmtb approvals")
    assert throttle.next([A], 1000.0) is None


def test_what_comes_in_the_pause_is_told_together_after_it() -> None:
    throttle = Throttle()
    throttle.next([A], 0.0)
    things = [A, *(thing(str(n)) for n in range(MOST_LINES + 2))]
    assert throttle.next(things, 1.0) is None
    assert not throttle.may_tell(1.0) and throttle.may_tell(PAUSE_S)
    told = throttle.next(things, PAUSE_S)
    assert isinstance(told, Notice)
    assert told.title == f"LM Tools Bridge: {MOST_LINES + 2} things need you"
    assert told.body.endswith("and 2 more")
    assert not throttle.may_tell(2 * PAUSE_S), "all is told"


def test_what_is_over_before_it_could_be_told_is_not_told() -> None:
    throttle = Throttle()
    throttle.next([A], 0.0)
    assert throttle.next([A, B], 1.0) is None
    assert throttle.next([A], 2.0) is None
    assert throttle.next([A], PAUSE_S) is None


def test_the_notification_goes_when_nothing_of_it_waits_any_more() -> None:
    throttle = Throttle()
    throttle.next([A, B], 0.0)
    assert throttle.next([B], 1.0) is None
    assert throttle.next([], 2.0) == Close()
    assert throttle.next([], 3.0) is None


def test_a_thing_that_comes_and_goes_is_told_once_in_a_while() -> None:
    throttle = Throttle()
    throttle.next([A], 0.0)
    throttle.next([], 1.0)
    assert throttle.next([A], 2 * PAUSE_S) is None
    throttle.next([], 3 * PAUSE_S)
    assert isinstance(throttle.next([A], 3 * PAUSE_S + REMEMBERED_S), Notice)


def test_an_hour_has_few_notifications() -> None:
    throttle = Throttle()
    sent = [throttle.next([thing(str(n))], n * PAUSE_S) for n in range(MOST_PER_HOUR + 5)]
    assert sum(isinstance(one, Notice) for one in sent) == MOST_PER_HOUR
    assert isinstance(throttle.next([thing("later")], HOUR_S), Notice)


def test_some_notifications_of_an_hour_are_left_for_approvals() -> None:
    throttle = Throttle()
    others = [Attention("failed", str(n), f"{n} failed", "lmtb doctor") for n in range(MOST_PER_HOUR)]
    sent = [throttle.next([one], n * PAUSE_S) for n, one in enumerate(others)]
    assert sum(isinstance(one, Notice) for one in sent) == MOST_PER_HOUR - FOR_APPROVALS
    now = MOST_PER_HOUR * PAUSE_S
    assert not throttle.may_tell(now) and throttle.may_tell(now + HOUR_S)
    assert isinstance(throttle.next([others[-1], A], now), Notice)
