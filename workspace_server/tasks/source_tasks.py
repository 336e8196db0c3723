"""Remembers which source made which task, for sources that make tasks themselves. In memory only."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.extensions import tasks

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
