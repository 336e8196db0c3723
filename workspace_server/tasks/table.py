"""Table of the tasks in memory: their limit in number and their expiry. Pure: the time is an argument.

Expiry uses monotonic seconds, so that setting the system clock does not expire a task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workspace_server.budgets import MAX_TASKS
from workspace_server.tasks.record import Record
from workspace_server.tasks.running_task import RunningTask


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
        gone = [key for key, one in self._entries.items() if one.running is None and one.until <= now]
        for key in gone:
            del self._entries[key]
        return gone
