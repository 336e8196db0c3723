"""When a call becomes a task, what becomes of it, and what survives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol import jsonrpc, tasks
from workspace_server.source import CallContext, CallOutcome, RpcError, ToolResult
from workspace_server.tasks import store as stores
from workspace_server.tasks import table as tables
from workspace_server.tasks.record import Ending
from workspace_server.tasks.store import Store
from workspace_server.tasks.tasks import FETCH_S, Job, Tasks

WORKSPACE = "shop-0123456789ab"
LONGEST = 60
TTL = LONGEST + 3600


def finish(outcome: CallOutcome) -> Ending:
    if isinstance(outcome, RpcError):
        return Ending(
            "error", jsonrpc.dumps({"code": outcome.code, "message": outcome.message}), outcome.message
        )
    text = outcome.text if isinstance(outcome, ToolResult) else str(outcome)
    return Ending("result", jsonrpc.dumps({"text": text}))


JOB = Job("slow", LONGEST, finish)


@dataclass
class World:
    """Tasks on a disk, under clocks of the test's."""

    folder: Path
    wall: float = 1_000_000.0
    now: float = 50.0

    @asynccontextmanager
    async def life(self, moment_s: float = 0.01) -> AsyncIterator[Tasks]:
        """One run of the workspace server."""
        one = Tasks(
            WORKSPACE, Store(self.folder), wall=lambda: self.wall, now=lambda: self.now, moment_s=moment_s
        )
        try:
            yield one
        finally:
            await one.close()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "tasks" / WORKSPACE)


class Work:
    """A call that ends when the test says so, and how it went."""

    def __init__(self, outcome: CallOutcome = ToolResult("done")) -> None:
        self.outcome = outcome
        self.go_on = asyncio.Event()
        self.cancelled = False

    async def __call__(self, context: CallContext) -> CallOutcome:
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return self.outcome


async def begin(
    one: Tasks, work: Callable[[CallContext], Awaitable[CallOutcome]], **context: Any
) -> dict[str, Any]:
    """The members of the task that a call has become."""
    outcome = await one.run(JOB, CallContext(**context), work)
    assert isinstance(outcome, msgspec.Raw), outcome
    found: dict[str, Any] = json.loads(bytes(outcome))
    assert found["resultType"] == "task"
    return found


async def ended(one: Tasks, task: str) -> dict[str, Any]:
    """A task once it is over, with what it holds."""
    async with asyncio.timeout(10):
        while True:
            seen = await one.get(task)
            assert seen is not None
            if seen.members["status"] not in {"working", "input_required"}:
                return {**seen.members, seen.holds: json.loads(seen.body) if seen.body else None}
            await asyncio.sleep(0.001)


async def test_call_that_is_done_in_a_moment_is_no_task(world: World) -> None:
    async def work(context: CallContext) -> CallOutcome:
        return ToolResult("at once")

    async with world.life(moment_s=30) as one:
        assert await one.run(JOB, CallContext(), work) == ToolResult("at once")
        assert one.running == 0
    assert not world.folder.exists()


async def test_call_that_takes_longer_is_a_task_with_its_workspace_in_its_id(world: World) -> None:
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


async def test_task_is_on_disk_before_anybody_hears_of_it(world: World) -> None:
    async with world.life() as one:
        found = await begin(one, Work())
        assert [record.key for record in Store(world.folder).load(0)] == [found["taskId"].rpartition(".")[2]]


async def test_ids_cannot_be_guessed(world: World) -> None:
    async with world.life() as one:
        found = {(await begin(one, Work()))["taskId"] for _ in range(3)}
        assert len(found) == 3
        assert all(len(task.rpartition(".")[2]) == 32 for task in found)


async def test_result_is_there_when_the_call_is_done(world: World) -> None:
    async with world.life() as one:
        work = Work()
        task = (await begin(one, work))["taskId"]
        world.wall += 2.5
        work.go_on.set()
        over = await ended(one, task)
        assert (over["status"], over["result"]) == ("completed", {"text": "done"})
        assert over["lastUpdatedAt"] == "1970-01-12T13:46:42.500Z"
        assert one.running == 0


async def test_error_of_the_protocol_is_a_failed_task(world: World) -> None:
    async with world.life() as one:
        work = Work(RpcError(-32099, "no"))
        task = (await begin(one, work))["taskId"]
        work.go_on.set()
        over = await ended(one, task)
        assert (over["status"], over["statusMessage"]) == ("failed", "no")
        assert over["error"] == {"code": -32099, "message": "no"}


async def test_cancelled_task_cancels_its_call_and_says_so_once_it_has_ended(world: World) -> None:
    async with world.life() as one:
        work = Work()
        task = (await begin(one, work))["taskId"]
        assert await one.cancel(task)
        assert (await ended(one, task))["status"] == "cancelled"
        assert work.cancelled
        assert await one.cancel(task)


async def test_call_that_was_done_before_it_could_be_cancelled_is_completed(world: World) -> None:
    async with world.life() as one:
        work = Work()
        task = (await begin(one, work))["taskId"]
        work.go_on.set()
        await asyncio.sleep(0)
        await one.cancel(task)
        assert (await ended(one, task))["status"] in {"completed", "cancelled"}


async def test_client_that_leaves_in_the_first_moment_cancels_the_call(world: World) -> None:
    """M16."""
    async with world.life(moment_s=30) as one:
        work = Work()
        call = asyncio.ensure_future(one.run(JOB, CallContext(), work))
        await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert work.cancelled
        assert one.running == 0


async def test_client_that_is_asked_at_once_is_asked_before_there_is_a_task(world: World) -> None:
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


async def test_task_that_asks_waits_for_the_answer(world: World) -> None:
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


async def test_nobody_knows_ids_of_other_workspaces_or_none_at_all(world: World) -> None:
    async with world.life() as one:
        key = (await begin(one, Work()))["taskId"].rpartition(".")[2]
        for task in ("", key, f"other.{key}", f"{WORKSPACE}.{'0' * 32}", f"{WORKSPACE}.{key}0", f"../{key}"):
            assert await one.get(task) is None
            assert not await one.cancel(task)
            assert not await one.answer(task, {})


async def test_another_run_knows_what_was_finished(world: World) -> None:
    async with world.life() as one:
        work = Work()
        task = (await begin(one, work))["taskId"]
        work.go_on.set()
        over = await ended(one, task)
    async with world.life() as other:
        assert await ended(other, task) == over


async def test_server_that_stops_ends_its_tasks_and_they_say_why(world: World) -> None:
    work = Work()
    async with world.life() as one:
        task = (await begin(one, work))["taskId"]
    assert work.cancelled
    async with world.life() as other:
        over = await ended(other, task)
    assert over["status"] == "failed"
    assert (over["error"]["code"], over["error"]["data"]["delivered"]) == (47103, "unknown")
    assert over["statusMessage"].startswith("the workspace server was stopped before the call was done")


async def test_tasks_of_a_server_that_died_have_failed_with_the_reason(world: World) -> None:
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


async def test_task_is_there_until_its_time_is_over_and_then_gone_for_good(world: World) -> None:
    async with world.life() as one:
        work = Work()
        task = (await begin(one, work))["taskId"]
        work.go_on.set()
        await ended(one, task)
        world.now += TTL - 1
        assert await one.get(task) is not None
        world.now += 1
        assert await one.get(task) is None
        assert list(world.folder.iterdir()) == []


async def test_clock_that_is_set_forward_makes_no_task_vanish(world: World) -> None:
    async with world.life() as one:
        work = Work()
        task = (await begin(one, work))["taskId"]
        work.go_on.set()
        await ended(one, task)
        world.wall += 10 * TTL
        assert await one.get(task) is not None


async def test_time_goes_on_between_two_runs(world: World) -> None:
    async with world.life() as one:
        work = Work()
        task = (await begin(one, work))["taskId"]
        work.go_on.set()
        await ended(one, task)
    world.wall += TTL - 10
    async with world.life() as other:
        assert await other.get(task) is not None
        world.now += 10
        assert await other.get(task) is None


async def test_clock_that_was_set_back_keeps_a_task_no_longer_than_its_time(world: World) -> None:
    async with world.life() as one:
        work = Work()
        task = (await begin(one, work))["taskId"]
        work.go_on.set()
        await ended(one, task)
    world.wall -= 1_000_000
    async with world.life() as other:
        assert await other.get(task) is not None
        world.now += TTL
        assert await other.get(task) is None


async def test_task_nobody_answers_fails_in_time_to_be_asked_why(world: World) -> None:
    async def work(context: CallContext) -> CallOutcome:
        await asyncio.sleep(0.05)
        await context.ask("elicitation/create", msgspec.Raw(b"{}"))
        raise AssertionError

    async with world.life() as one:
        found = await one.run(
            Job("slow", -FETCH_S, finish), CallContext(capabilities={"elicitation": {}}), work
        )
        task = json.loads(bytes(found))["taskId"]  # type: ignore[call-overload]  # a task, as its members show
        over = await ended(one, task)
        assert (over["status"], over["error"]["code"]) == ("failed", 47104)


@contextmanager
def broken_disk(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every write fails."""

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with patch.context() as inner:
        inner.setattr(stores.private_files, "write", fail)
        yield


async def test_call_waits_for_its_result_when_no_task_can_be_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.life() as one:
        work = Work()
        with broken_disk(monkeypatch):
            call = asyncio.ensure_future(one.run(JOB, CallContext(), work))
            await asyncio.sleep(0.1)
            assert not call.done()
            work.go_on.set()
            assert await call == ToolResult("done")
        assert one.running == 0


async def test_result_the_disk_does_not_take_is_there_while_the_server_lives(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.life() as one:
        work = Work()
        task = (await begin(one, work))["taskId"]
        with broken_disk(monkeypatch):
            work.go_on.set()
            assert (await ended(one, task))["result"] == {"text": "done"}
    async with world.life() as other:
        assert (await ended(other, task))["status"] == "failed"


async def test_result_that_was_lost_is_a_failed_task(world: World) -> None:
    async with world.life() as one:
        work = Work()
        task = (await begin(one, work))["taskId"]
        work.go_on.set()
        await ended(one, task)
        for body in world.folder.glob("*.body"):
            body.write_bytes(b"{}")
        over = await ended(one, task)
        assert (over["status"], over["error"]["code"]) == ("failed", jsonrpc.INTERNAL_ERROR)


async def test_result_that_is_too_large_is_refused_in_its_place(
    world: World, monkeypatch: pytest.MonkeyPatch
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
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MAX_TASKS", 2)
    async with world.life() as one:
        work = Work()
        for _ in range(2):
            await begin(one, work)
        call = asyncio.ensure_future(one.run(JOB, CallContext(), work))
        await asyncio.sleep(0.05)
        work.go_on.set()
        assert await call == ToolResult("done")


async def test_a_fault_of_ours_is_an_end_too(world: World) -> None:
    def broken(outcome: CallOutcome) -> Ending:
        raise ZeroDivisionError

    async with world.life() as one:
        work = Work()
        found = await one.run(Job("slow", LONGEST, broken), CallContext(), work)
        work.go_on.set()
        task = json.loads(bytes(found))["taskId"]  # type: ignore[call-overload]  # a task, as its members show
        assert (await ended(one, task))["error"]["code"] == jsonrpc.INTERNAL_ERROR


async def test_without_a_place_to_keep_them_there_are_no_tasks() -> None:
    work = Work()
    work.go_on.set()
    one = Tasks()
    assert await one.run(JOB, CallContext(), work) == ToolResult("done")
    assert await one.get(f"{WORKSPACE}.{'0' * 32}") is None
    await one.close()
