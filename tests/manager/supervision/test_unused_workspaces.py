"""Workspaces that are gone for long are forgotten; all others, and what belongs to them, stay."""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lm_tools_bridge.protocol.errors import Refusal
from manager.configuration.settings import Settings
from manager.disk.disk_lookups import DiskLookups
from manager.disk.filesystem import FolderExaminer
from manager.state_file import Loaded, Store, WorkspaceRow
from manager.supervision import unused_workspaces as forgotten_workspaces
from manager.supervision.dependencies import Dependencies
from manager.supervision.instance import Instance
from manager.supervision.registered_servers import RegisteredServers
from manager.supervision.unused_workspaces import (
    AFTER_S,
    LOOKS,
    RemovedRoots,
    RootSign,
    RootWatch,
    forget_gone_workspaces,
    root_on_disk,
)
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import Workspaces
from support.processes.managers.manager_in_process import make_project
from support.projects.git_repositories import git, repository, worktree
from support.servers.no_registered_servers import NoRegisteredServers

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


pytestmark = pytest.mark.processes


class Scene:
    """Workspaces whose folders are looked at when the test says so."""

    def __init__(self, folder: Path, store: Store) -> None:
        settings = Settings(start_timeout_s=10, grace_s=5)
        self.now = 1000.0
        dependencies = Dependencies(settings, store, folder, os.environ, now=lambda: self.now)
        self.workspaces = Workspaces(
            dependencies, FolderExaminer(), NoRegisteredServers(), home=None, windows=False
        )
        self.watch = RemovedRoots(self.workspaces, lookups=DiskLookups(deadline_s=0.3))

    async def serve(self, root: Path) -> tuple[Workspace, Instance]:
        """The workspace of a folder and its running server, whose folder was looked at once."""
        self.now += 10
        workspace = await self.workspaces.find(str(root), ambient=False)
        assert isinstance(workspace, Workspace)
        instance = await self.workspaces.ready(workspace)
        assert isinstance(instance, Instance)
        await self.watch.look()
        return workspace, instance


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    store = Store(tmp_path / "state.db", set_aside_name=lambda: "x")
    await store.open()
    made = Scene(tmp_path.resolve(), store)
    yield made
    await made.workspaces.close()
    await store.close()


async def test_a_removed_worktree_stops_its_server_with_the_next_look(scene: Scene, tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    tree = worktree(main)
    (_, kept), (workspace, server) = await scene.serve(main), await scene.serve(tree)
    await scene.watch.look()
    assert workspace.repository == str(main / ".git")
    git(main, "worktree", "remove", "--force", str(tree))
    await scene.watch.look()
    assert not server.is_alive
    assert workspace.supervisor.instance is None
    assert workspace.supervisor.lifecycle.state.value == "stopped"
    assert workspace.supervisor.figures.last_error == "its folder was removed"
    assert kept.is_alive
    assert isinstance(await scene.workspaces.ready(workspace), Refusal)


async def test_a_folder_made_anew_at_the_same_path_gets_a_new_server(scene: Scene, tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    tree = worktree(main)
    workspace, server = await scene.serve(tree)
    git(main, "worktree", "remove", "--force", str(tree))
    worktree(main)
    await scene.watch.look()
    assert not server.is_alive
    again, new = await scene.serve(tree)
    assert again is workspace
    assert workspace.supervisor.figures.last_error is None
    assert new is not server
    for _ in range(12):
        await scene.watch.look()
    assert new.is_alive


async def test_a_moved_folder_stops_its_server_unless_it_comes_back(scene: Scene, tmp_path: Path) -> None:
    root = make_project(tmp_path / "proj")
    workspace, server = await scene.serve(root)
    for _ in range(3):
        root.rename(tmp_path / "moved")
        await scene.watch.look()
        (tmp_path / "moved").rename(root)
        await scene.watch.look()
    assert server.is_alive
    root.rename(tmp_path / "moved")
    make_project(root)
    for _ in range(LOOKS[RootSign.MOVED]):
        await scene.watch.look()
    assert not server.is_alive
    assert workspace.moved_to == str(tmp_path / "moved")


async def test_a_worktree_without_its_git_file_stops_its_server_and_an_ordinary_folder_does_not(
    scene: Scene, tmp_path: Path
) -> None:
    main = repository(tmp_path / "main")
    tree = worktree(main)
    (_, kept), (workspace, server) = await scene.serve(main), await scene.serve(tree)
    (tree / ".git").unlink()
    shutil.rmtree(main / ".git")
    await scene.watch.look()
    assert server.is_alive
    await scene.watch.look()
    assert not server.is_alive
    assert workspace.supervisor.figures.last_error == "its folder is no git worktree any more"
    assert kept.is_alive


async def test_a_disk_that_hangs_stops_no_server_and_hides_no_removed_folder(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, removed = make_project(tmp_path / "silent"), make_project(tmp_path / "removed")
    (_, kept), (_, server) = await scene.serve(silent), await scene.serve(removed)
    release = threading.Event()
    monkeypatch.setattr(forgotten_workspaces, "root_on_disk", lambda root: release.wait(30) and None)
    shutil.rmtree(removed)
    for _ in range(LOOKS[RootSign.MISSING] + 2):
        await scene.watch.look()
    assert not server.is_alive
    assert kept.is_alive
    assert sum(thread.name == "folder" for thread in threading.enumerate()) == 1
    release.set()


def test_a_path_that_cannot_be_looked_at_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert root_on_disk(tmp_path) == (True, False)
    assert root_on_disk(tmp_path / "none") == (False, False)
    (tmp_path / "file").write_text("")
    assert root_on_disk(tmp_path / "file") == (False, False)

    def stale(_: Path) -> os.stat_result:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(Path, "lstat", stale)
    assert root_on_disk(tmp_path) is None


@pytest.mark.parametrize("sign", list(RootSign))
def test_a_server_stops_after_so_many_equal_looks_and_never_for_lack_of_an_answer(sign: RootSign) -> None:
    watch = RootWatch()
    answers = [watch.saw(sign) for _ in range(12)]
    assert answers.count(True) == (0 if sign in {RootSign.HERE, RootSign.UNKNOWN} else 13 - LOOKS[sign])
    assert not any(answers[: LOOKS.get(sign, 12) - 1])


@pytest.mark.parametrize("sign", [RootSign.MOVED, RootSign.NO_WORKTREE, RootSign.MISSING])
@pytest.mark.parametrize("between", [RootSign.HERE, RootSign.UNKNOWN])
def test_a_folder_that_is_away_for_a_moment_stops_nothing(sign: RootSign, between: RootSign) -> None:
    watch = RootWatch()
    for _ in range(4):
        assert not any(watch.saw(sign) for _ in range(LOOKS[sign] - 1))
        assert not watch.saw(between)
