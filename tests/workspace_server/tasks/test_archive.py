"""Stored tasks survive restarts, clock changes and disk faults, until they expire."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.machine import private_files
from lm_tools_bridge.protocol import jsonrpc
from support.projects.running_tasks import (
    DONE,
    JOB,
    TTL,
    WORKSPACE,
    RunningTasks,
    Work,
    begin,
    ended,
    finished,
)
from workspace_server.call_context import CallContext


@pytest.fixture
def world(tmp_path: Path) -> RunningTasks:
    return RunningTasks(tmp_path / "tasks" / WORKSPACE)


async def test_another_run_knows_what_was_finished(world: RunningTasks) -> None:
    async with world.life() as one:
        task, over = await finished(one)
    async with world.life() as other:
        assert await ended(other, task) == over


async def test_server_that_stops_ends_its_tasks_and_they_say_why(world: RunningTasks) -> None:
    work = Work()
    async with world.life() as one:
        task = (await begin(one, work))["taskId"]
    assert work.cancelled
    async with world.life() as other:
        over = await ended(other, task)
    assert over["status"] == "failed"
    assert (over["error"]["code"], over["error"]["data"]["delivered"]) == (47103, "unknown")
    assert over["statusMessage"].startswith("the workspace server was stopped before the call was done")


async def test_tasks_of_a_server_that_died_have_failed_with_the_reason(world: RunningTasks) -> None:
    async with world.life() as one:
        task = (await begin(one, Work()))["taskId"]
        world.wall += 10  # of the run that died nothing is written any more
        async with world.life() as other:
            over = await ended(other, task)
            assert over["status"] == "failed"
            assert over["error"]["code"] == 47103
            assert over["statusMessage"].startswith("the workspace server ended before the call was done")
            assert over["lastUpdatedAt"] == "1970-01-12T13:46:50.000Z"
        async with world.life() as third:
            assert await ended(third, task) == over


async def test_task_is_there_until_its_time_is_over_and_then_gone_for_good(world: RunningTasks) -> None:
    async with world.life() as one:
        task, _ = await finished(one)
        world.now += TTL - 1
        assert await one.get(task) is not None
        world.now += 1
        assert await one.get(task) is None
        assert list(world.folder.iterdir()) == []


async def test_clock_that_is_set_forward_makes_no_task_vanish(world: RunningTasks) -> None:
    async with world.life() as one:
        task, _ = await finished(one)
        world.wall += 10 * TTL
        assert await one.get(task) is not None


async def test_time_goes_on_between_two_runs(world: RunningTasks) -> None:
    async with world.life() as one:
        task, _ = await finished(one)
    world.wall += TTL - 10
    async with world.life() as other:
        assert await other.get(task) is not None
        world.now += 10
        assert await other.get(task) is None


async def test_clock_that_was_set_back_keeps_a_task_no_longer_than_its_time(world: RunningTasks) -> None:
    async with world.life() as one:
        task, _ = await finished(one)
    world.wall -= 1_000_000
    async with world.life() as other:
        assert await other.get(task) is not None
        world.now += TTL
        assert await other.get(task) is None


@contextmanager
def broken_disk(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every write fails."""

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with patch.context() as inner:
        inner.setattr(private_files, "write", fail)
        yield


async def test_call_waits_for_its_result_when_no_task_can_be_kept(
    world: RunningTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.life() as one:
        work = Work()
        with broken_disk(monkeypatch):
            call = asyncio.ensure_future(one.run(JOB, CallContext(), work))
            await asyncio.sleep(0.1)
            assert not call.done()
            work.go_on.set()
            assert await call == DONE
        assert one.running == 0


async def test_result_the_disk_does_not_take_is_there_while_the_server_lives(
    world: RunningTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.life() as one:
        work = Work()
        task = (await begin(one, work))["taskId"]
        with broken_disk(monkeypatch):
            work.go_on.set()
            assert (await ended(one, task))["result"] == {"text": "done"}
    async with world.life() as other:
        assert (await ended(other, task))["status"] == "failed"


async def test_result_that_was_lost_is_a_failed_task(world: RunningTasks) -> None:
    async with world.life() as one:
        task, _ = await finished(one)
        for body in world.folder.glob("*.body"):
            body.write_bytes(b"{}")
        over = await ended(one, task)
        assert (over["status"], over["error"]["code"]) == ("failed", jsonrpc.INTERNAL_ERROR)
