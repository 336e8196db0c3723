"""The figures of the last ten minutes."""

from __future__ import annotations

from manager.admin.history import MOST_MOMENTS, History
from manager.supervision.instance import Figures


def test_a_moment_has_what_happened_since_the_last_one() -> None:
    history, figures = History(), Figures(calls=5)
    history.add([figures], 10, 0.5)
    figures.calls += 2
    figures.failures["overloaded"] += 1
    figures.timings.record_call(0.0, 0.0, 0.2, 0.2)
    history.add([figures], 20, 0.0)
    first, second = history.moments
    assert (first.calls, first.errors, first.p99_s, first.memory, first.lag_s) == (5, 0, None, 10, 0.5)
    assert (second.calls, second.errors, second.memory) == (2, 1, 20)
    assert second.p99_s is not None
    assert 0.15 < second.p99_s <= 0.2


def test_a_removed_workspace_makes_no_negative_moment() -> None:
    history = History()
    history.add([Figures(calls=5), Figures(calls=1)], None, 0.0)
    history.add([Figures(calls=1)], None, 0.0)
    history.add([], None, 0.0)
    history.add([Figures(calls=1)], None, 0.0)
    assert [one.calls for one in history.moments] == [6, 0, 0, 1]


def test_the_oldest_moments_end() -> None:
    history = History()
    for number in range(MOST_MOMENTS + 3):
        history.add([], number, 0.0)
    assert [one.memory for one in history.moments] == list(range(3, MOST_MOMENTS + 3))
