"""When a call becomes a task, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol import tasks_extension as tasks
from lm_tools_bridge.protocol.internal.call_reports import MAX_REPORTED, EndedTask
from support.projects.running_tasks import (
    DONE,
    JOB,
    LONGEST,
    TTL,
    WORKSPACE,
    RunningTasks,
    Work,
    begin,
    ended,
    finish,
)
from workspace_server.budgets import MAX_TASKS
from workspace_server.call_context import CallContext
from workspace_server.tasks import archive
from workspace_server.tasks.store import Ending, Store
from workspace_server.tasks.tasks import FETCH_S, EndedTasks, Job, Tasks
from workspace_server.tool import CallOutcome, RpcError, ToolResult


@pytest.fixture
def world(tmp_path: Path) -> RunningTasks:
    return RunningTasks(tmp_path / "tasks" / WORKSPACE)


async def test_call_that_is_done_in_a_moment_is_no_task(world: RunningTasks) -> None:
    async def work(context: CallContext) -> CallOutcome:
        return ToolResult("at once")

    async with world.life(immediate_s=30) as one:
        assert await one.run(JOB, CallContext(), work) == ToolResult("at once")
        assert one.running == 0
    assert not world.folder.exists()


async def test_call_that_takes_longer_is_a_task_with_its_workspace_in_its_id(world: RunningTasks) -> None:
    async with world.life() as one:
        found = await begin(one, Work())
        assert tasks.workspace_of(found["taskId"]) == WORKSPACE
        assert found == {
            "resultType": "task",
            "taskId": found["taskId"],
            "status": "working",
            "createdAt": "1970-01-12T13:46:40.000Z",
            "lastUpdatedAt": "1970-01-12T13:46:40.000Z",
            "ttlMs": TTL * 1000,
            "pollIntervalMs": 1000,
        }
        assert one.running == 1


async def test_a_task_is_on_disk_before_its_id_is_sent(world: RunningTasks) -> None:
    async with world.life() as one:
        found = await begin(one, Work())
        assert [record.key for record in Store(world.folder).load(0)] == [found["taskId"].rpartition(".")[2]]


async def test_ids_cannot_be_guessed(world: RunningTasks) -> None:
    async with world.life() as one:
        found = {(await begin(one, Work()))["taskId"] for _ in range(3)}
        assert len(found) == 3
        assert all(len(task.rpartition(".")[2]) == 32 for task in found)


async def test_result_is_there_when_the_call_is_done(world: RunningTasks) -> None:
    async with world.life() as one:
        work = Work()
        task = (await begin(one, work))["taskId"]
        world.wall += 2.5
        work.go_on.set()
        over = await ended(one, task)
        assert (over["status"], over["result"]) == ("completed", {"text": "done"})
        assert over["lastUpdatedAt"] == "1970-01-12T13:46:42.500Z"
        assert one.running == 0


async def test_error_of_the_protocol_is_a_failed_task(world: RunningTasks) -> None:
    async with world.life() as one:
        work = Work(RpcError(-32099, "no"))
        task = (await begin(one, work))["taskId"]
        work.go_on.set()
        over = await ended(one, task)
        assert (over["status"], over["statusMessage"]) == ("failed", "no")
        assert over["error"] == {"code": -32099, "message": "no"}


async def test_cancelled_task_cancels_its_call_and_says_so_once_it_has_ended(world: RunningTasks) -> None:
    async with world.life() as one:
        work = Work()
        task = (await begin(one, work))["taskId"]
        assert await one.cancel(task)
        assert (await ended(one, task))["status"] == "cancelled"
        assert work.cancelled
        assert await one.cancel(task)


async def test_call_that_was_done_before_it_could_be_cancelled_is_completed(world: RunningTasks) -> None:
    async with world.life() as one:
        work = Work()
        task = (await begin(one, work))["taskId"]
        work.go_on.set()
        await asyncio.sleep(0)
        await one.cancel(task)
        assert (await ended(one, task))["status"] in {"completed", "cancelled"}


async def test_client_that_leaves_in_the_first_moment_cancels_the_call(world: RunningTasks) -> None:
    async with world.life(immediate_s=30) as one:
        work = Work()
        call = asyncio.ensure_future(one.run(JOB, CallContext(), work))
        await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert work.cancelled
        assert one.running == 0


async def test_client_that_is_asked_at_once_is_asked_before_there_is_a_task(world: RunningTasks) -> None:
    answered = asyncio.Event()

    async def ask(method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
        await answered.wait()
        return msgspec.Raw(b"{}")

    async def work(context: CallContext) -> CallOutcome:
        await context.ask("roots/list", msgspec.Raw(b""))
        await asyncio.Event().wait()
        raise AssertionError

    async with world.life() as one:
        call = asyncio.ensure_future(begin(one, work, ask=ask))
        await asyncio.sleep(0.05)
        assert not call.done()
        answered.set()
        assert (await call)["status"] == "working"


async def test_task_that_asks_waits_for_the_answer(world: RunningTasks) -> None:
    async def work(context: CallContext) -> CallOutcome:
        await asyncio.sleep(0.05)
        answer = await context.ask("elicitation/create", msgspec.Raw(b'{"message":"name?"}'))
        return ToolResult(bytes(answer).decode() if isinstance(answer, msgspec.Raw) else "refused")

    heard: list[str] = []
    async with world.life() as one:
        one.watch(heard.append)
        found = await begin(one, work, capabilities={"elicitation": {}})
        async with asyncio.timeout(10):
            while not (seen := await one.get(found["taskId"])) or not seen.requests:
                await asyncio.sleep(0.001)
        assert seen.members["status"] == "input_required"
        assert await one.answer(found["taskId"], dict.fromkeys(seen.requests, msgspec.Raw(b'{"n":1.0}')))
        assert (await ended(one, found["taskId"]))["result"] == {"text": '{"n":1.0}'}
    assert set(heard) == {found["taskId"]}
    assert len(heard) == 3


async def test_ids_of_other_workspaces_and_invalid_ids_are_unknown(world: RunningTasks) -> None:
    async with world.life() as one:
        key = (await begin(one, Work()))["taskId"].rpartition(".")[2]
        for task in ("", key, f"other.{key}", f"{WORKSPACE}.{'0' * 32}", f"{WORKSPACE}.{key}0", f"../{key}"):
            assert await one.get(task) is None
            assert not await one.cancel(task)
            assert not await one.answer(task, {})


async def test_an_unanswered_task_fails_while_its_result_can_still_be_fetched(world: RunningTasks) -> None:
    async def work(context: CallContext) -> CallOutcome:
        await asyncio.sleep(0.05)
        await context.ask("elicitation/create", msgspec.Raw(b"{}"))
        raise AssertionError

    async with world.life() as one:
        task = (await begin(one, work, Job("slow", -FETCH_S, finish), capabilities={"elicitation": {}}))[
            "taskId"
        ]
        over = await ended(one, task)
        assert (over["status"], over["error"]["code"]) == ("failed", 47104)


async def test_result_that_is_too_large_is_refused_in_its_place(
    world: RunningTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workspace_server.tasks.tasks.MAX_BODY", 100)
    async with world.life() as one:
        work = Work(ToolResult("x" * 100))
        task = (await begin(one, work))["taskId"]
        work.go_on.set()
        over = await ended(one, task)
        assert over["status"] == "completed"
        assert "47106" in over["result"]["text"] or "RESPONSE_TOO_LARGE" in over["result"]["text"]


async def test_calls_wait_when_there_are_too_many_tasks(
    world: RunningTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_TASKS", 2)
    async with world.life() as one:
        work = Work()
        for _ in range(2):
            await begin(one, work)
        call = asyncio.ensure_future(one.run(JOB, CallContext(), work))
        await asyncio.sleep(0.05)
        work.go_on.set()
        assert await call == DONE


async def test_a_fault_of_ours_is_an_end_too(world: RunningTasks) -> None:
    def broken(outcome: CallOutcome) -> Ending:
        raise ZeroDivisionError

    async with world.life() as one:
        work = Work()
        task = (await begin(one, work, Job("slow", LONGEST, broken)))["taskId"]
        work.go_on.set()
        assert (await ended(one, task))["error"]["code"] == jsonrpc.INTERNAL_ERROR


async def test_without_a_place_to_keep_them_there_are_no_tasks() -> None:
    work = Work()
    work.go_on.set()
    one = Tasks()
    assert await one.run(JOB, CallContext(), work) == DONE
    assert await one.get(f"{WORKSPACE}.{'0' * 32}") is None
    await one.close()


def task(number: int) -> EndedTask:
    return EndedTask(
        tool=str(number), source="scripts", client="", client_version="", revision="", trace="", begun=1.0,
        ended=2.0, source_s=0.0, approval_s=0.0, sent=0, received=None, outcome="ok", code=None,
    )  # fmt: skip


class Line:
    """A lifeline that may be cut."""

    def __init__(self) -> None:
        self.reported: list[str] = []
        self.sizes: list[int] = []
        self.is_cut = False

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        if self.is_cut:
            raise ConnectionResetError
        assert method == names.TASKS_ENDED
        self.sizes.append(len(params["tasks"]))
        self.reported += [one["tool"] for one in params["tasks"]]


async def test_each_end_is_reported_once_in_order() -> None:
    ended, line = EndedTasks(), Line()
    for number in range(MAX_REPORTED + 5):
        ended.add(task(number))
    await ended.report(line.notify)
    await ended.report(line.notify)
    assert line.reported == [str(number) for number in range(MAX_REPORTED + 5)]
    assert line.sizes == [MAX_REPORTED, 5]
    assert not ended


async def test_what_could_not_be_sent_is_sent_on_the_next_lifeline() -> None:
    ended, line = EndedTasks(), Line()
    for number in range(3):
        ended.add(task(number))
    line.is_cut = True
    with pytest.raises(ConnectionResetError):
        await ended.report(line.notify)
    ended.add(task(3))
    line.is_cut = False
    await ended.report(line.notify)
    assert line.reported == ["0", "1", "2", "3"]


async def test_the_oldest_give_way_when_no_manager_listens() -> None:
    ended, line = EndedTasks(), Line()
    for number in range(MAX_TASKS + 10):
        ended.add(task(number))
    line.is_cut = True
    with pytest.raises(ConnectionResetError):
        await ended.report(line.notify)
    line.is_cut = False
    await ended.report(line.notify)
    assert line.reported == [str(number) for number in range(10, MAX_TASKS + 10)]


async def test_a_listener_hears_of_each_end_until_it_leaves() -> None:
    heard: list[int] = []
    ended = EndedTasks()
    leave = ended.listen(lambda: heard.append(1))
    ended.add(task(1))
    leave()
    ended.add(task(2))
    assert heard == [1]
