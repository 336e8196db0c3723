"""What servers report of tasks that have ended becomes calls, within limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.internal import call_reports as ended_task
from lm_tools_bridge.protocol.internal.call_reports import MAX_REPORTED, EndedTask
from lm_tools_bridge.recorder.call_log import Filter
from manager.call_observer import NO_OBSERVER, EndedCall
from manager.supervision.lifeline import BURST, LONGEST_S, PER_S, TaskEnds, ended_call
from support.recorded_calls import WALL, Clock, log_of, recorder

NOW = 1000.0


def task(**members: Any) -> EndedTask:
    """A task of 20 s that ended a second ago."""
    usual: dict[str, Any] = {
        "tool": "build", "source": "scripts", "client": "agent", "client_version": "1.2",
        "revision": "2026-07-28", "trace": "", "begun": NOW - 21, "ended": NOW - 1, "source_s": 19.5,
        "approval_s": 0.25, "sent": 30, "received": 400, "outcome": "ok", "code": None,
    }  # fmt: skip
    return EndedTask(**{**usual, **members})


def message(*tasks: EndedTask) -> bytes:
    return jsonrpc.notification(names.TASKS_ENDED, ended_task.params_of(tasks))


def ends(calls: list[EndedCall], now: float = NOW) -> TaskEnds:
    return TaskEnds("shop-1a2b", calls.append, lambda: now)


def test_an_end_is_a_call_with_its_whole_duration(tmp_path: Path) -> None:
    clock = Clock()
    one = recorder(tmp_path, clock)
    TaskEnds("shop-1a2b", one.observe_call, lambda: clock.monotonic).report(
        message(task(), task(outcome="error", code=-32050))
    )
    one.flush()
    one.close()
    with log_of(tmp_path) as log:
        failed, call = log.find(Filter(), 9)
    assert (call.at, call.took, call.server, call.manager) == (
        round((WALL - 21) * 1000),
        20_000_000,
        20_000_000,
        0,
    )
    assert (call.client, call.client_version, call.revision, call.era) == (
        "agent",
        "1.2",
        "2026-07-28",
        "modern",
    )
    assert (call.project, call.method, call.tool, call.source) == (
        "shop-1a2b",
        "tools/call",
        "build",
        "scripts",
    )
    assert (call.source_took, call.approval, call.sent, call.received) == (19_500_000, 250_000, 30, 400)
    assert (call.outcome, failed.outcome, failed.code) == ("ok", "error", -32050)


@pytest.mark.parametrize(
    "invalid",
    [
        {"tool": "x" * 201},
        {"source": "x" * 1025},
        {"client": 7},
        {"begun": -1.0},
        {"sent": -1},
        {"received": 2**60},
        {"code": 2**60},
        {"outcome": "no such word"},
        {"outcome": "ok\n"},
        {"outcome": "x" * 41},
        {"outcome": "task"},
        {"outcome": "input_required"},
    ],
)
def test_what_cannot_be_true_is_not_recorded(invalid: dict[str, Any]) -> None:
    calls: list[EndedCall] = []
    ends(calls).report(message(task(**invalid)))
    assert calls == []


@pytest.mark.parametrize(
    "other",
    [
        b"",
        b"[]",
        b'{"method":"other","params":{"tasks":[]}}',
        b'{"method":"lmToolsBridge/tasksEnded"}',
        b'{"method":"lmToolsBridge/tasksEnded","params":{"tasks":[{"tool":"x"}]}}',
        b'{"method":"lmToolsBridge/tasksEnded","params":' + b"[" * 100_000,
        message(*[task()] * (MAX_REPORTED + 1)),
    ],
)
def test_other_notifications_are_ignored(other: bytes) -> None:
    calls: list[EndedCall] = []
    ends(calls).report(other)
    assert calls == []


@pytest.mark.parametrize(
    ("begun", "ended", "took"),
    [(NOW - 5, NOW + 90, 5.0), (NOW + 50, NOW + 90, 0.0), (NOW - 1, NOW - 3, 0.0), (0.0, NOW - 1, NOW - 1)],
)
def test_times_that_cannot_be_are_moved(begun: float, ended: float, took: float) -> None:
    call = ended_call(task(begun=begun, ended=ended, source_s=1e9), "w", NOW)
    assert call.ended_at - call.origin.begun == pytest.approx(took)
    assert call.ended_at <= NOW


def test_no_task_takes_for_ever() -> None:
    call = ended_call(task(begun=0.0, ended=1e9), "w", 1e9)
    assert call.ended_at - call.origin.begun == LONGEST_S


def test_a_server_cannot_flood_the_recorder() -> None:
    calls: list[EndedCall] = []
    clock = Clock()
    one = TaskEnds("shop-1a2b", calls.append, lambda: clock.monotonic)
    for _ in range(20):
        one.report(message(*[task()] * MAX_REPORTED))
    assert len(calls) == BURST
    clock.pass_time(1.0)
    for _ in range(20):
        one.report(message(*[task()] * MAX_REPORTED))
    assert len(calls) == BURST + PER_S


def test_reports_that_nobody_observes_are_ignored() -> None:
    TaskEnds("shop-1a2b", NO_OBSERVER.observe_call).report(message(task()))
