"""Tasks in memory expire in time."""

from __future__ import annotations

from workspace_server.budgets import MAX_TASKS
from workspace_server.call_context import CallContext
from workspace_server.tasks.archive import Table
from workspace_server.tasks.running_task import RunningTask
from workspace_server.tasks.store import Record


def record(key: str = "k") -> Record:
    return Record(key=key, created=0.0, updated=0.0, ttl_s=60, status="completed")


def test_task_is_known_until_its_time_is_over() -> None:
    table = Table()
    table.add(record(), now=1000.0, left_s=60.0)
    assert table.expire(1059.9) == []
    assert table.get("k") is not None
    assert table.expire(1060.0) == ["k"]
    assert table.get("k") is None


async def test_task_that_runs_is_not_forgotten_whatever_the_time() -> None:
    table = Table()
    entry = table.add(record(), now=0.0, left_s=1.0, running=RunningTask(CallContext(), lambda: None))
    assert table.expire(100.0) == []
    entry.running = None
    assert table.expire(100.0) == ["k"]


def test_nothing_but_time_makes_room() -> None:
    table = Table()
    for number in range(MAX_TASKS):
        assert not table.is_full
        table.add(record(f"k{number}"), now=0.0, left_s=60.0 + number)
    assert table.is_full
    assert table.expire(60.0) == ["k0"]
    assert not table.is_full
