"""When a call becomes a task, and how it ends (SEP-2663).

A task is on disk before its id is given away, and stays there until its time is over, whatever happens to
client, manager or this process. Whoever knows its id may ask about it, answer it and cancel it.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from protocol import jsonrpc
from protocol.errors import Reason, Refusal
from workspace_server import log
from workspace_server.call_context import CallContext
from workspace_server.tasks.archive import KEEP_S, Archive, TaskSnapshot, failed
from workspace_server.tasks.record import Ending, created
from workspace_server.tasks.running_task import RunningTask, Work
from workspace_server.tasks.source_tasks import SourceTasks
from workspace_server.tasks.store import MAX_BODY, Store
from workspace_server.tasks.table import Entry
from workspace_server.tool import CallOutcome

MOMENT_S: Final = 0.2
"""A call that is done within this time is answered like any other."""
FETCH_S: Final = KEEP_S // 2
"""How long it can at least be asked how a task ended."""
_STOPPED: Final = "the workspace server was stopped before the call was done"
_FAULT: Final = "the workspace server failed; its log says why"


@dataclass(frozen=True, slots=True)
class Job:
    """A call that may become a task.

    Attributes:
        tool: its offered name.
        time_limit_s: the longest it may take.
        finish: what its outcome means for a client.
    """

    tool: str
    time_limit_s: float
    finish: Callable[[CallOutcome], Ending]


class Tasks:
    """Makes, ends and shows tasks. Without a store there are none, and every call waits for its result.

    Args:
        workspace: its id, which every task's id begins with.
        store: where they are kept.
        wall: seconds since 1970. now: monotonic seconds.
        moment_s: see `MOMENT_S`.

    Attributes:
        source_tasks: the tasks that sources made themselves.
    """

    def __init__(
        self,
        workspace: str = "",
        store: Store | None = None,
        *,
        wall: Callable[[], float] = time.time,
        now: Callable[[], float] = time.monotonic,
        moment_s: float = MOMENT_S,
    ) -> None:
        self._workspace = workspace
        self._archive = None if store is None else Archive(workspace, store, wall, now)
        self._moment_s = moment_s
        self._watches: dict[asyncio.Task[None], RunningTask] = {}
        self._is_closed = False
        self.source_tasks = SourceTasks()

    @property
    def running(self) -> int:
        """How many are not over."""
        return len(self._watches)

    async def run(self, job: Job, context: CallContext, work: Work) -> CallOutcome:
        """The outcome of a call, or a result that says which task it has become.

        It becomes none where the disk does not take it or there are too many: then the caller waits. Being
        cancelled cancels the call, until it is a task.
        """
        archive = self._archive
        if archive is None:
            return await work(context)
        key = secrets.token_hex(16)
        running = RunningTask(context, partial(archive.changed, key))
        call = running.work = asyncio.ensure_future(work(running.context))
        entry: Entry | None = None
        try:
            await self._moment(running, call)
            if not call.done() and not self._is_closed:
                entry = await self._enter(archive, key, job, running, work)
            return await call if entry is None else jsonrpc.raw(created(entry.record, self._workspace))
        finally:
            if entry is None and not call.done():
                call.cancel()
                await asyncio.wait({call})

    async def get(self, task: str) -> TaskSnapshot | None:
        """A task as it is now; None for one that does not exist, or does not any more."""
        entry = await self._find(task)
        return None if entry is None or self._archive is None else await self._archive.seen(entry)

    async def answer(self, task: str, responses: Mapping[str, msgspec.Raw]) -> bool:
        """Give a task answers to what it asked, by key; whether there is such a task."""
        entry = await self._find(task)
        if entry is not None and entry.running is not None:
            entry.running.answer(responses)
        return entry is not None

    async def cancel(self, task: str) -> bool:
        """Begin to end a task, if it is not over; whether there is such a task."""
        entry = await self._find(task)
        if entry is not None and entry.running is not None:
            entry.running.stop()
        return entry is not None

    def watch(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """See `Archive.watch`."""
        return (lambda: None) if self._archive is None else self._archive.watch(listener)

    async def close(self) -> None:
        """End the tasks that are not over; they have failed. Idempotent."""
        self._is_closed = True
        for running in self._watches.values():
            running.stop()
        await asyncio.gather(*self._watches, return_exceptions=True)

    async def _find(self, task: str) -> Entry | None:
        return None if self._archive is None else await self._archive.find(task)

    async def _moment(self, running: RunningTask, call: asyncio.Future[CallOutcome]) -> None:
        """Wait a moment for the call, and for as long as its client is being asked something."""
        is_asked = True
        while is_asked and not call.done():
            await asyncio.wait({call}, timeout=self._moment_s)
            is_asked = running.is_asking

    async def _enter(
        self, archive: Archive, key: str, job: Job, running: RunningTask, work: Work
    ) -> Entry | None:
        with running.becoming_task() as become:
            entry = await archive.enter(key, math.ceil(job.time_limit_s) + KEEP_S, running)
            if entry is None:
                return None
            become()
            watch = asyncio.create_task(self._see_through(archive, entry, job, work), name=f"task {job.tool}")
            running.watch = watch
            self._watches[watch] = running
            watch.add_done_callback(self._watches.pop)
            await asyncio.sleep(0)  # one that is cancelled before it has begun would see to nothing
        return entry

    async def _see_through(self, archive: Archive, entry: Entry, job: Job, work: Work) -> None:
        """Wait for the end of a task's call, and keep it."""
        assert entry.running is not None  # noqa: S101  narrows the type: it has just been entered so
        ending: Ending | None = None
        try:
            async with asyncio.timeout(entry.record.ttl_s - FETCH_S):
                ending = job.finish(await entry.running.finish(work))
            if len(ending.body) > MAX_BODY:
                text = f"{job.tool} returned more than {MAX_BODY >> 20} MiB, which no task can hold"
                ending = job.finish(Refusal(Reason.RESPONSE_TOO_LARGE, text, delivered="unknown"))
        except TimeoutError:
            text = f"{job.tool} was not done when the time of its task was over"
            ending = failed(Refusal(Reason.CALL_TIMED_OUT, text, delivered="unknown"))
        except asyncio.CancelledError:
            if self._is_closed:
                ending = failed(Refusal(Reason.WORKSPACE_SERVER_DIED, _STOPPED, delivered="unknown"))
        except Exception as fault:  # noqa: BLE001  whatever happens, the task has an end
            log.fault("task_failed", fault, tool=job.tool)
            ending = Ending(
                "error", jsonrpc.dumps({"code": jsonrpc.INTERNAL_ERROR, "message": _FAULT}), _FAULT
            )
        await archive.end(entry, ending)
