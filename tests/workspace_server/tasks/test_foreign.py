"""Tasks that sources made themselves are remembered by their sources' ids for them."""

from __future__ import annotations

import msgspec
import pytest

from workspace_server.tasks import foreign
from workspace_server.tasks.foreign import ForeignTasks


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
    tasks = ForeignTasks()
    tasks.note(msgspec.Raw(result), "remote:a")
    assert tasks.owner("t") is None


def test_task_is_its_sources() -> None:
    tasks = ForeignTasks()
    tasks.note(msgspec.Raw(b'{"taskId":"t","resultType":"task"}'), "remote:a")
    assert tasks.owner("t") == "remote:a"


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "MAX_REMEMBERED", 2)
    tasks = ForeignTasks()
    for name in ("a", "b", "a", "c"):
        tasks.remember(name, "remote:a")
    assert [name for name in ("a", "b", "c") if tasks.owner(name)] == ["a", "c"]
