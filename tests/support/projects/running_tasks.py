"""Tasks of a workspace on a temporary disk, with manual clocks and calls that end on demand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from workspace_server.call_context import CallContext
from workspace_server.tasks.store import Ending, Store
from workspace_server.tasks.tasks import Job, Tasks
from workspace_server.tool import CallOutcome, RpcError, ToolResult

WORKSPACE = "shop-0123456789ab"
LONGEST = 60
TTL = LONGEST + 3600
DONE = ToolResult("done")


def finish(outcome: CallOutcome) -> Ending:
    """The text of a result, or the error."""
    if isinstance(outcome, RpcError):
        error = {"code": outcome.code, "message": outcome.message}
        return Ending("error", jsonrpc.dumps(error), outcome.message)
    text = outcome.text if isinstance(outcome, ToolResult) else str(outcome)
    return Ending("result", jsonrpc.dumps({"text": text}))


JOB = Job("slow", LONGEST, finish)


@dataclass
class RunningTasks:
    """What outlives a run of the workspace server. `wall` and `now` are what its clocks say."""

    folder: Path
    wall: float = 1_000_000.0
    now: float = 50.0

    @asynccontextmanager
    async def life(self, immediate_s: float = 0.01) -> AsyncIterator[Tasks]:
        """One run."""
        one = Tasks(
            WORKSPACE,
            Store(self.folder),
            wall=lambda: self.wall,
            now=lambda: self.now,
            immediate_s=immediate_s,
        )
        try:
            yield one
        finally:
            await one.close()


class Work:
    """A call that ends when the test says so, and how it went."""

    def __init__(self, outcome: CallOutcome = DONE) -> None:
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
    one: Tasks, work: Callable[[CallContext], Awaitable[CallOutcome]], job: Job = JOB, **context: Any
) -> dict[str, Any]:
    """The members of the task that a call has become."""
    outcome = await one.run(job, CallContext(**context), work)
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


async def finished(one: Tasks) -> tuple[str, dict[str, Any]]:
    """The id of a task whose call is done, and what is known of it."""
    work = Work()
    task = (await begin(one, work))["taskId"]
    work.go_on.set()
    return task, await ended(one, task)
