"""The tasks there are and what became of them, in memory and on disk: found by id, forgotten in time.

What makes a task and ends it is `tasks.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from host import private_files
from protocol import jsonrpc, tasks
from protocol.errors import Reason, Refusal
from workspace_server import log
from workspace_server.tasks.record import Ending, Holds, Record, wire
from workspace_server.tasks.running_task import RunningTask
from workspace_server.tasks.store import Store
from workspace_server.tasks.table import Entry, Table

KEEP_S: Final = 3600
"""How long a task can be asked about, beside the longest time its call may take."""
_DIED: Final = "the workspace server ended before the call was done"
_LOST: Final = "the result of this task cannot be read any more"


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """A task as it is now: the members all states have, what is asked by key, and what it holds."""

    members: Mapping[str, Any]
    requests: Mapping[str, msgspec.Raw]
    holds: Holds = ""
    body: bytes = b""


class Archive:
    """All tasks of one workspace.

    Args:
        workspace: its id, which every task's id begins with.
        store: where they are kept.
        wall: seconds since 1970. now: monotonic seconds.
    """

    def __init__(
        self, workspace: str, store: Store, wall: Callable[[], float], now: Callable[[], float]
    ) -> None:
        self._workspace = workspace
        self._store = store
        self._wall = wall
        self._now = now
        self._table = Table()
        self._listeners: set[Callable[[str], None]] = set()
        self._loading = asyncio.Lock()
        self._is_loaded = False

    async def enter(self, key: str, ttl_s: int, running: RunningTask) -> Entry | None:
        """A new task, on disk when this returns; None where there is no room or the disk does not take it."""
        await self._load()
        if self._table.is_full:
            return None
        at = self._wall()
        record = Record(key=key, created=at, updated=at, ttl_s=ttl_s)
        entry = self._table.add(record, self._now(), ttl_s, running)
        try:
            await asyncio.to_thread(self._store.save, record)
        except (OSError, private_files.UnsafePathError) as error:
            log.error("task_not_kept", cause=type(error).__name__)
            self._table.remove(key)
            return None
        except BaseException:
            self._table.remove(key)
            raise
        return entry

    async def find(self, task: str) -> Entry | None:
        """The task of an id; None for one that does not exist, or does not any more."""
        key = tasks.key_of(task, self._workspace)
        if key is None:
            return None
        await self._load()
        return self._table.get(key)

    async def seen(self, entry: Entry) -> TaskSnapshot:
        """A task as a client sees it."""
        record, running = entry.record, entry.running
        if running is not None:
            record = replace(record, status=running.status, message=running.message)
            return TaskSnapshot(wire(record, self._workspace), running.requests)
        body = entry.body
        if body is None and record.holds:
            body = await asyncio.to_thread(self._store.body, record)
        if body is None and record.status != "cancelled":
            text = record.message if record.status == "failed" and record.message else _LOST
            body = jsonrpc.dumps({"code": jsonrpc.INTERNAL_ERROR, "message": text})
            record = replace(record, status="failed", message=text, holds="error")
        return TaskSnapshot(wire(record, self._workspace), {}, record.holds, body or b"")

    async def end(self, entry: Entry, ending: Ending | None) -> None:
        """Keep how a task ended; None for cancelled."""
        record, body = replace(entry.record, status="cancelled", updated=self._wall()), None
        if ending is not None:
            record, body = _ended(record, ending), ending.body
        if not await asyncio.to_thread(self._kept, record, body):
            entry.body = body  # for as long as this process lives
        entry.record, entry.running = record, None
        self._tell(record.key)

    def changed(self, key: str) -> None:
        """Something about a running task is new."""
        entry = self._table.get(key)
        if entry is not None:
            entry.record = replace(entry.record, updated=self._wall())
            self._tell(key)

    def watch(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with the id of a task whenever its state or its questions change.

        Returns:
            What ends it.
        """
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def _tell(self, key: str) -> None:
        for listener in tuple(self._listeners):
            listener(tasks.task_id(self._workspace, key))

    async def _load(self) -> None:
        """Know again what an earlier run knew, and forget what is past its time."""
        async with self._loading:
            if not self._is_loaded:
                for record in await asyncio.to_thread(self._recall):
                    left = record.created + record.ttl_s - self._wall()
                    self._table.add(record, self._now(), min(max(left, 0.0), record.ttl_s))
                self._is_loaded = True
        if gone := self._table.expire(self._now()):
            await asyncio.to_thread(self._store.remove, gone)

    def _recall(self) -> list[Record]:
        """The kept tasks; those that ran when an earlier run ended have failed. Blocks."""
        return [self._survivor(record) for record in self._store.load(KEEP_S)]

    def _survivor(self, record: Record) -> Record:
        if record.is_over:
            return record
        ending = failed(Refusal(Reason.WORKSPACE_SERVER_DIED, _DIED, delivered="unknown"))
        record = _ended(replace(record, updated=self._wall()), ending)
        return record if self._kept(record, ending.body) else replace(record, holds="")

    def _kept(self, record: Record, body: bytes | None) -> bool:
        try:
            self._store.save(record, body)
        except (OSError, private_files.UnsafePathError) as error:
            log.error("task_end_not_kept", cause=type(error).__name__)
            return False
        return True


def failed(refusal: Refusal) -> Ending:
    """The end of a task whose call we ended."""
    error = {"code": refusal.reason.code, "message": refusal.text, "data": refusal.data()}
    return Ending("error", jsonrpc.dumps(error), refusal.text)


def _ended(record: Record, ending: Ending) -> Record:
    digest = sha256(ending.body).hexdigest()
    return replace(record, status=ending.status, message=ending.message, holds=ending.holds, digest=digest)
