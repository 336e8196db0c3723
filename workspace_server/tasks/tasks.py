"""Decides when a running call becomes a task, and ends tasks with their result (SEP-2663).

A task is stored on disk before its id is sent, and stays there until its time to live is over, whatever
happens to client, manager or this process. Anyone who knows the id may poll, answer and cancel the task.
Ended tasks are listed until a manager takes them, which records them as calls.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol import tasks_extension as tasks
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.internal import call_reports as ended_task
from lm_tools_bridge.protocol.internal.call_reports import EndedTask
from workspace_server import log
from workspace_server.budgets import MAX_TASKS
from workspace_server.call_context import CallContext
from workspace_server.tasks.archive import KEEP_S, Archive, Entry, TaskSnapshot, failure_ending
from workspace_server.tasks.running_task import RunningTask, Work
from workspace_server.tasks.store import MAX_BODY, Ending, Store, created
from workspace_server.tool import CallOutcome

Notify = Callable[[str, Mapping[str, Any]], Awaitable[None]]


class EndedTasks:
    """The ended tasks that no manager knows, at most `MAX_TASKS`: the oldest give way. In memory only."""

    def __init__(self) -> None:
        self._waiting: deque[EndedTask] = deque(maxlen=MAX_TASKS)
        self._listeners: set[Callable[[], None]] = set()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, task: EndedTask) -> None:
        """Keep a task for the manager."""
        self._waiting.append(task)
        for listener in tuple(self._listeners):
            listener()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every new task. Returns a function that removes it."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    async def report(self, notify: Notify) -> None:
        """Report all tasks. Those of a notification that could not be sent are kept."""
        while self._waiting:
            reported = self._take()
            try:
                await notify(names.TASKS_ENDED, ended_task.params_of(reported))
            except BaseException:
                self._put_back(reported)
                raise

    def _take(self) -> Sequence[EndedTask]:
        count = min(len(self._waiting), ended_task.MAX_REPORTED)
        return [self._waiting.popleft() for _ in range(count)]

    def _put_back(self, tasks: Sequence[EndedTask]) -> None:
        room = MAX_TASKS - len(self._waiting)
        self._waiting.extendleft(reversed(tasks[max(0, len(tasks) - room) :]))


IMMEDIATE_S: Final = 0.2
"""A call that ends within this time does not become a task."""
FETCH_S: Final = KEEP_S // 2
"""Minimum time for which the result of a task can be fetched."""
_STOPPED: Final = "the workspace server was stopped before the call was done"
_FAULT: Final = "the workspace server failed; its log says why"


@dataclass(frozen=True, slots=True)
class Job:
    """A call that may become a task.

    Attributes:
        tool: the tool's offered name.
        time_limit_s: the time limit of the call, in seconds.
        finish: turns the call's outcome into what the task stores.
        ended: takes the ending of a task, None if it was cancelled.
    """

    tool: str
    time_limit_s: float
    finish: Callable[[CallOutcome], Ending]
    ended: Callable[[Ending | None], object] = lambda _: None


class Tasks:
    """Creates, ends and shows tasks. Without a store no call becomes a task.

    Args:
        workspace: the workspace's id, with which every task id begins.
        store: stores tasks on disk.
        wall: seconds since 1970.
        now: monotonic seconds.
        immediate_s: see `IMMEDIATE_S`.

    Attributes:
        source_tasks: the tasks that sources made themselves.
        ended: the tasks of which the manager must hear that they have ended.
    """

    def __init__(
        self,
        workspace: str = "",
        store: Store | None = None,
        *,
        wall: Callable[[], float] = time.time,
        now: Callable[[], float] = time.monotonic,
        immediate_s: float = IMMEDIATE_S,
    ) -> None:
        self._workspace = workspace
        self._archive = None if store is None else Archive(workspace, store, wall, now)
        self._immediate_s = immediate_s
        self._watches: dict[asyncio.Task[None], RunningTask] = {}
        self._is_closed = False
        self.source_tasks = SourceTasks()
        self.ended = EndedTasks()

    @property
    def running(self) -> int:
        """How many tasks have not ended."""
        return len(self._watches)

    async def run(self, job: Job, context: CallContext, work: Work) -> CallOutcome:
        """The outcome of a call, or a result that names the task it has become.

        The call does not become a task if there are too many or the disk rejects it; then the caller waits.
        Cancelling this cancels the call, until the call is a task.
        """
        archive = self._archive
        if archive is None:
            return await work(context)
        key = secrets.token_hex(16)
        running = RunningTask(context, partial(archive.changed, key))
        call = running.work = asyncio.ensure_future(work(running.context))
        entry: Entry | None = None
        try:
            await self._wait_briefly(running, call)
            if not call.done() and not self._is_closed:
                entry = await self._create(archive, key, job, running, work)
            return await call if entry is None else jsonrpc.raw(created(entry.record, self._workspace))
        finally:
            if entry is None and not call.done():
                call.cancel()
                await asyncio.wait({call})

    async def get(self, task: str) -> TaskSnapshot | None:
        """The current state of a task; None if it does not exist or has expired."""
        entry = await self._find(task)
        return None if entry is None or self._archive is None else await self._archive.snapshot(entry)

    async def answer(self, task: str, responses: Mapping[str, msgspec.Raw]) -> bool:
        """Pass a client's answers, by key, to a task; returns whether the task exists."""
        entry = await self._find(task)
        if entry is not None and entry.running is not None:
            entry.running.answer(responses)
        return entry is not None

    async def cancel(self, task: str) -> bool:
        """Start to cancel a task, unless it has ended; returns whether the task exists."""
        entry = await self._find(task)
        if entry is not None and entry.running is not None:
            entry.running.stop()
        return entry is not None

    def watch(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """See `Archive.watch`."""
        return (lambda: None) if self._archive is None else self._archive.watch(listener)

    async def close(self) -> None:
        """Cancel the running tasks; they are stored as failed. Idempotent."""
        self._is_closed = True
        for running in self._watches.values():
            running.stop()
        await asyncio.gather(*self._watches, return_exceptions=True)

    async def _find(self, task: str) -> Entry | None:
        return None if self._archive is None else await self._archive.find(task)

    async def _wait_briefly(self, running: RunningTask, call: asyncio.Future[CallOutcome]) -> None:
        """Wait `immediate_s` for the call, and longer while its client is being asked something."""
        is_asked = True
        while is_asked and not call.done():
            await asyncio.wait({call}, timeout=self._immediate_s)
            is_asked = running.is_asking

    async def _create(
        self, archive: Archive, key: str, job: Job, running: RunningTask, work: Work
    ) -> Entry | None:
        with running.becoming_task() as become:
            entry = await archive.create(key, math.ceil(job.time_limit_s) + KEEP_S, running)
            if entry is None:
                return None
            become()
            watch = asyncio.create_task(
                self._store_ending(archive, entry, job, work), name=f"task {job.tool}"
            )
            running.watch = watch
            self._watches[watch] = running
            watch.add_done_callback(self._watches.pop)
            await asyncio.sleep(0)  # a task cancelled before it has started would not run its cleanup
        return entry

    async def _store_ending(self, archive: Archive, entry: Entry, job: Job, work: Work) -> None:
        """Wait for a task's call to end, and store the ending."""
        assert entry.running is not None  # noqa: S101  narrows the type: it was created with one
        ending: Ending | None = None
        try:
            async with asyncio.timeout(entry.record.ttl_s - FETCH_S):
                ending = job.finish(await entry.running.finish(work))
            if len(ending.body) > MAX_BODY:
                text = f"{job.tool} returned more than {MAX_BODY >> 20} MiB, which no task can hold"
                ending = job.finish(Refusal(Reason.RESPONSE_TOO_LARGE, text, delivered="unknown"))
        except TimeoutError:
            text = f"{job.tool} was not done when the time of its task was over"
            ending = failure_ending(Refusal(Reason.CALL_TIMED_OUT, text, delivered="unknown"))
        except asyncio.CancelledError:
            if self._is_closed:
                ending = failure_ending(Refusal(Reason.WORKSPACE_SERVER_DIED, _STOPPED, delivered="unknown"))
        except Exception as fault:  # noqa: BLE001  every task gets an ending
            log.fault("task_failed", fault, tool=job.tool)
            error = {"code": jsonrpc.INTERNAL_ERROR, "message": _FAULT}
            ending = Ending("error", jsonrpc.dumps(error), _FAULT, "error")
        job.ended(ending)
        await archive.end(entry, ending)


# Some 100 KB. A task whose owner is forgotten is asked for at all sources.
MAX_REMEMBERED: Final = 1024


class SourceTasks:
    """The owners of the last `MAX_REMEMBERED` tasks that sources made."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, str] = OrderedDict()

    def remember_from(self, result: msgspec.Raw, source: str) -> None:
        """Remember the task that a result names, if it names one; `source` is the source's id."""
        if b'"task"' not in jsonrpc.bytes_of(result):
            return
        members = jsonrpc.members_of(result)
        task = jsonrpc.text_of(members.get("taskId", b""))
        if task and jsonrpc.text_of(members.get("resultType", b"")) == tasks.RESULT_TYPE:
            self.remember(task, source)

    def remember(self, task: str, source: str) -> None:
        """Remember that the task of this id belongs to this source."""
        self._owners[task] = source
        self._owners.move_to_end(task)
        if len(self._owners) > MAX_REMEMBERED:
            self._owners.popitem(last=False)

    def owner(self, task: str) -> str | None:
        """The id of the source that made a task; None if it is not remembered."""
        return self._owners.get(task)
