"""Workspaces that are gone for long are forgotten; all others, and what belongs to them, stay."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

from manager.configuration.settings import Settings
from manager.disk.filesystem import FolderExaminer
from manager.state_file.store import Store
from manager.state_file.tables import Loaded, WorkspaceRow
from manager.supervision.dependencies import Dependencies
from manager.supervision.forgotten_workspaces import AFTER_S, forget_gone_workspaces
from manager.supervision.registration.registered_servers import RegisteredServers
from manager.supervision.workspaces import Workspaces

NOW = 100 * 24 * 3600.0


async def test_only_workspaces_that_are_gone_for_long_are_forgotten(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db", set_aside_name=lambda: "x")
    await store.open()
    logs, tasks = tmp_path / "logs", tmp_path / "tasks"
    ids = {name: f"{name}-0123456789ab" for name in ("there", "gone", "lately", "unknown")}
    for name, identity in ids.items():
        (tmp_path / name).mkdir()
        (tasks / identity).mkdir(parents=True)
        logs.mkdir(exist_ok=True)
        for path in (logs / f"{identity}.log", tasks / identity):
            path.touch()
            at = NOW - AFTER_S + (1 if name == "lately" else -1)
            os.utime(path, (at, at))
    (logs / "manager.log").touch()
    os.utime(logs / "manager.log", (0, 0))
    for name in ("gone", "lately", "unknown"):
        shutil.rmtree(tmp_path / name)
    rows = [WorkspaceRow(ids[name], str(tmp_path.resolve() / name)) for name in ("there", "gone", "lately")]
    for row in rows:
        await store.save_workspace(row)

    dependencies = Dependencies(Settings(), store, logs, os.environ, rng=random.Random(0))
    examiner = FolderExaminer()
    registered = RegisteredServers(dependencies, examiner)
    workspaces = Workspaces(dependencies, examiner, registered, home=None, windows=False)
    await workspaces.restore(Loaded(tuple(rows)))
    await forget_gone_workspaces(workspaces, examiner, tmp_path, NOW)
    await store.close()

    kept = {ids["there"], ids["lately"]}
    assert {one.id for one in workspaces} == kept
    assert {path.stem for path in logs.iterdir()} == {*kept, "manager"}
    assert {path.name for path in tasks.iterdir()} == kept
    again = Store(tmp_path / "state.db", set_aside_name=lambda: "x")
    assert {row.id for row in (await again.open()).workspaces} == kept
    await again.close()
