"""Whose the tasks are that sources made themselves, under ids of their own. A restart forgets that."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from protocol import jsonrpc, tasks

MAX_REMEMBERED: Final = 1024


class SourceTasks:
    """The last `MAX_REMEMBERED` tasks of sources."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, str] = OrderedDict()

    def note(self, result: msgspec.Raw, source: str) -> None:
        """Look at a result of a source, given by its id: it may be a task."""
        if b'"task"' not in jsonrpc.bytes_of(result):
            return
        members = jsonrpc.members_of(result)
        task = jsonrpc.text_of(members.get("taskId", b""))
        if task and jsonrpc.text_of(members.get("resultType", b"")) == tasks.RESULT_TYPE:
            self.remember(task, source)

    def remember(self, task: str, source: str) -> None:
        """The task of this id is this source's."""
        self._owners[task] = source
        self._owners.move_to_end(task)
        if len(self._owners) > MAX_REMEMBERED:
            self._owners.popitem(last=False)

    def owner(self, task: str) -> str | None:
        """The id of the source that made a task, if that is remembered."""
        return self._owners.get(task)
