"""Tasks that sources made are remembered with their source."""

from __future__ import annotations

import msgspec
import pytest

from workspace_server.tasks import tasks as task_owners
from workspace_server.tasks.tasks import SourceTasks


@pytest.mark.parametrize(
    "result",
    [
        b'{"content":[{"type":"text","text":"task"}],"taskId":"t"}',
        b'{"resultType":"complete","note":"task","taskId":"t"}',
        b'{"resultType":"task"}',
        b'{"resultType":"task","taskId":7}',
        b'["task"]',
    ],
)
def test_what_is_no_task_is_not_remembered(result: bytes) -> None:
    tasks = SourceTasks()
    tasks.remember_from(msgspec.Raw(result), "remote:a")
    assert tasks.owner("t") is None


def test_task_is_its_sources() -> None:
    tasks = SourceTasks()
    tasks.remember_from(msgspec.Raw(b'{"taskId":"t","resultType":"task"}'), "remote:a")
    assert tasks.owner("t") == "remote:a"


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_owners, "MAX_REMEMBERED", 2)
    tasks = SourceTasks()
    for name in ("a", "b", "a", "c"):
        tasks.remember(name, "remote:a")
    assert [name for name in ("a", "b", "c") if tasks.owner(name)] == ["a", "c"]
