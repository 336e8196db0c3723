"""Keeps the tasks that have ended until a manager takes them, which records them as calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.internal import ended_task
from lm_tools_bridge.protocol.internal.ended_task import EndedTask
from workspace_server.budgets import MAX_TASKS

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
