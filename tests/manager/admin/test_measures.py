"""Tests snapshots of the counters, and the measurement of the event loop's lag."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lm_tools_bridge.http_server.byte_budget import ByteBudget
from manager.admin.measures import INTERVALS_PER_MINUTE, MAX_WORKSPACES, MOST_MOMENTS, History, Measures
from manager.routing.state.lifecycle import Lifecycle
from manager.sessions.session_manager import SessionManager
from manager.supervision.instance import BOUNDS, Figures
from manager.supervision.workspaces import Workspaces

SESSION_MANAGER = cast(SessionManager, SimpleNamespace(sessions=["a", "b"], streams=["c"]))


def workspace(number: int) -> Any:
    supervisor = SimpleNamespace(figures=Figures(calls=number), lifecycle=Lifecycle(), is_serving=True)
    return SimpleNamespace(id=f"ws-{number}", used_at=float(number), supervisor=supervisor)


def measures(*workspaces: Any) -> Measures:
    return Measures(cast(Workspaces, list(workspaces)), SESSION_MANAGER, ByteBudget())


def test_only_the_most_recently_used_workspaces_get_figures() -> None:
    taken = measures(*(workspace(number) for number in range(MAX_WORKSPACES + 7))).snapshot()
    assert {one.id for one in taken.workspaces} == {f"ws-{n}" for n in range(7, MAX_WORKSPACES + 7)}
    assert (taken.left_out, taken.sessions, taken.streams) == (7, 2, 1)


def test_a_removed_workspace_is_no_longer_in_the_snapshot() -> None:
    listed = [workspace(1), workspace(2)]
    all_of_them = Measures(cast(Workspaces, listed), SESSION_MANAGER, ByteBudget())
    assert len(all_of_them.snapshot().workspaces) == 2
    listed.pop()
    assert [one.id for one in all_of_them.snapshot().workspaces] == ["ws-1"]


def test_a_snapshot_does_not_change() -> None:
    one = workspace(1)
    [taken] = measures(one).snapshot().workspaces
    one.supervisor.figures.timings.record_call(0.0, 1.0, 2.0, 3.0)
    one.supervisor.figures.failures["overloaded"] += 1
    assert (taken.server.total, sum(taken.manager.counts), taken.failures) == (0.0, 0, {})


async def test_loop_lag_is_measured_each_second_and_minutes_advance() -> None:
    clock, one = [100.0], workspace(1)
    looks = 0

    class EnoughError(Exception):
        pass

    async def sleep(seconds: float) -> None:
        nonlocal looks
        if looks == INTERVALS_PER_MINUTE * 5:
            raise EnoughError
        clock[0] += seconds + (0.25 if looks == 3 else 0.0)
        looks += 1

    all_of_them = measures(one)
    one.supervisor.figures.timings.record_call(0.0, 1.0, 2.0, 2.0)
    with pytest.raises(EnoughError):
        await all_of_them.run(lambda: clock[0], sleep)
    lag = all_of_them.snapshot().loop_lag
    assert (sum(lag.counts), lag.counts[0], lag.counts[BOUNDS.index(0.3)]) == (
        INTERVALS_PER_MINUTE * 5,
        INTERVALS_PER_MINUTE * 5 - 1,
        1,
    )
    assert sum(one.supervisor.figures.timings.recent().server) == 0, "the call is five minutes old"


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
