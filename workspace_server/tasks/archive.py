"""Finds tasks by id, in memory and on disk, and sets how long results are kept.

`tasks.py` creates and ends them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.machine import private_files
from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol import tasks_extension as tasks
from lm_tools_bridge.protocol.errors import Reason, Refusal
from workspace_server import log
from workspace_server.budgets import MAX_TASKS
from workspace_server.tasks.running_task import RunningTask
from workspace_server.tasks.store import Ending, Holds, Record, Store, wire

KEEP_S: Final = 3600
"""A task's time to live, in addition to the time limit of its call."""
_DIED: Final = "the workspace server ended before the call was done"
_LOST: Final = "the result of this task cannot be read any more"


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """The state of a task: the common members, the open input requests by key, and the stored result."""

    members: Mapping[str, Any]
    requests: Mapping[str, msgspec.Raw]
    holds: Holds = ""
    body: bytes = b""


class Archive:
    """The tasks of one workspace.

    Args:
        workspace: the workspace's id, with which every task id begins.
        store: stores tasks on disk.
        wall: seconds since 1970.
        now: monotonic seconds.
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

    async def create(self, key: str, ttl_s: int, running: RunningTask) -> Entry | None:
        """A new task, stored on disk; None if there are too many tasks or the disk rejects it."""
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
        """The task of an id; None if it does not exist or has expired."""
        key = tasks.key_of(task, self._workspace)
        if key is None:
            return None
        await self._load()
        return self._table.get(key)

    async def snapshot(self, entry: Entry) -> TaskSnapshot:
        """The state of a task for a client."""
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
        """Store how a task ended; None means cancelled."""
        record, body = replace(entry.record, status="cancelled", updated=self._wall()), None
        if ending is not None:
            record, body = _ended_record(record, ending), ending.body
        if not await asyncio.to_thread(self._save, record, body):
            entry.body = body  # kept in memory instead
        entry.record, entry.running = record, None
        self._notify(record.key)

    def changed(self, key: str) -> None:
        """Record that a running task has changed."""
        entry = self._table.get(key)
        if entry is not None:
            entry.record = replace(entry.record, updated=self._wall())
            self._notify(key)

    def watch(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with the id of a task whenever its state or its questions change.

        Returns:
            The function that ends this.
        """
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def _notify(self, key: str) -> None:
        for listener in tuple(self._listeners):
            listener(tasks.task_id(self._workspace, key))

    async def _load(self) -> None:
        """Load the tasks of earlier runs once, and remove expired ones."""
        async with self._loading:
            if not self._is_loaded:
                for record in await asyncio.to_thread(self._load_records):
                    left = record.created + record.ttl_s - self._wall()
                    self._table.add(record, self._now(), min(max(left, 0.0), record.ttl_s))
                self._is_loaded = True
        if gone := self._table.expire(self._now()):
            await asyncio.to_thread(self._store.remove, gone)

    def _load_records(self) -> list[Record]:
        """The stored tasks. Those that were running when an earlier run ended have failed. Blocks."""
        return [self._ended_record(record) for record in self._store.load(KEEP_S)]

    def _ended_record(self, record: Record) -> Record:
        if record.is_over:
            return record
        ending = failure_ending(Refusal(Reason.WORKSPACE_SERVER_DIED, _DIED, delivered="unknown"))
        record = _ended_record(replace(record, updated=self._wall()), ending)
        return record if self._save(record, ending.body) else replace(record, holds="")

    def _save(self, record: Record, body: bytes | None) -> bool:
        try:
            self._store.save(record, body)
        except (OSError, private_files.UnsafePathError) as error:
            log.error("task_end_not_kept", cause=type(error).__name__)
            return False
        return True


def failure_ending(refusal: Refusal) -> Ending:
    """The ending of a task whose call this server stopped."""
    error = {"code": refusal.reason.code, "message": refusal.text, "data": refusal.data()}
    return Ending("error", jsonrpc.dumps(error), refusal.text, refusal.reason.word)


def _ended_record(record: Record, ending: Ending) -> Record:
    digest = sha256(ending.body).hexdigest()
    return replace(record, status=ending.status, message=ending.message, holds=ending.holds, digest=digest)


# Expiry uses monotonic seconds, so that setting the system clock does not expire a task.


@dataclass(slots=True)
class Entry:
    """A task in the table.

    Attributes:
        until: when the task expires.
        running: its running call; None after it has ended.
        body: its stored result, if the disk rejected it.
    """

    record: Record
    until: float
    running: RunningTask | None = None
    body: bytes | None = None


class Table:
    """The tasks of one workspace by key, at most `MAX_TASKS`. Only expiry makes room."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    @property
    def is_full(self) -> bool:
        """Whether no more tasks can be added."""
        return len(self._entries) >= MAX_TASKS

    def add(self, record: Record, now: float, left_s: float, running: RunningTask | None = None) -> Entry:
        """Add a task that expires after `left_s` seconds."""
        entry = self._entries[record.key] = Entry(record, now + left_s, running)
        return entry

    def get(self, key: str) -> Entry | None:
        """The task of this key."""
        return self._entries.get(key)

    def remove(self, key: str) -> None:
        """Remove a task."""
        self._entries.pop(key, None)

    def expire(self, now: float) -> list[str]:
        """Remove all ended tasks that have expired; returns their keys."""
        gone = [key for key, entry in self._entries.items() if entry.running is None and entry.until <= now]
        for key in gone:
            del self._entries[key]
        return gone
