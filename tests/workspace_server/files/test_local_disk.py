"""Which folders may be looked at without a thread."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from workspace_server.files import local_disk
from workspace_server.files.local_disk import LocalFiles


@pytest.mark.parametrize(
    ("local", "inside", "at_once"), [(True, True, True), (True, False, False), (False, True, False)]
)
async def test_only_what_cannot_hang_runs_without_a_thread(
    local: bool, inside: bool, at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_disk, "are_local", lambda folders: local)
    path = tmp_path / "proj/a.py" if inside else tmp_path / "project/a.py"
    ran_in = await LocalFiles([tmp_path / "proj"]).run([path], threading.current_thread)
    assert (ran_in is threading.current_thread()) is at_once
