"""Ended tasks wait for a manager, are reported once, and are kept if that fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.internal.ended_task import MAX_REPORTED, EndedTask
from workspace_server.budgets import MAX_TASKS
from workspace_server.tasks.ended_tasks import EndedTasks


def task(number: int) -> EndedTask:
    return EndedTask(
        tool=str(number), source="scripts", client="", client_version="", revision="", trace="", begun=1.0,
        ended=2.0, source_s=0.0, approval_s=0.0, sent=0, received=None, outcome="ok", code=None,
    )  # fmt: skip


class Line:
    """A lifeline that may be cut."""

    def __init__(self) -> None:
        self.reported: list[str] = []
        self.sizes: list[int] = []
        self.is_cut = False

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        if self.is_cut:
            raise ConnectionResetError
        assert method == names.TASKS_ENDED
        self.sizes.append(len(params["tasks"]))
        self.reported += [one["tool"] for one in params["tasks"]]


async def test_each_end_is_reported_once_in_order() -> None:
    ended, line = EndedTasks(), Line()
    for number in range(MAX_REPORTED + 5):
        ended.add(task(number))
    await ended.report(line.notify)
    await ended.report(line.notify)
    assert line.reported == [str(number) for number in range(MAX_REPORTED + 5)]
    assert line.sizes == [MAX_REPORTED, 5]
    assert not ended


async def test_what_could_not_be_sent_is_sent_on_the_next_lifeline() -> None:
    ended, line = EndedTasks(), Line()
    for number in range(3):
        ended.add(task(number))
    line.is_cut = True
    with pytest.raises(ConnectionResetError):
        await ended.report(line.notify)
    ended.add(task(3))
    line.is_cut = False
    await ended.report(line.notify)
    assert line.reported == ["0", "1", "2", "3"]


async def test_the_oldest_give_way_when_no_manager_listens() -> None:
    ended, line = EndedTasks(), Line()
    for number in range(MAX_TASKS + 10):
        ended.add(task(number))
    line.is_cut = True
    with pytest.raises(ConnectionResetError):
        await ended.report(line.notify)
    line.is_cut = False
    await ended.report(line.notify)
    assert line.reported == [str(number) for number in range(10, MAX_TASKS + 10)]


async def test_a_listener_hears_of_each_end_until_it_leaves() -> None:
    heard: list[int] = []
    ended = EndedTasks()
    leave = ended.listen(lambda: heard.append(1))
    ended.add(task(1))
    leave()
    ended.add(task(2))
    assert heard == [1]
