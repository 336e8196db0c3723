"""The table of workspaces: disks that hang, servers that register in the middle of a look, idle stops."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from manager import filesystem
from manager.filesystem import FolderExaminer
from manager.settings import Settings
from manager.store import Store
from manager.supervision.dependencies import Dependencies
from manager.supervision.instance import Instance
from manager.supervision.supervisor import Supervisor
from manager.supervision.workspaces import ROOT_CHECK_S, ROOT_RECHECK_S, Workspace, Workspaces
from protocol.errors import Reason, Refusal
from support.processes.manager_in_process import make_project

BOUND = 15.0


class NoRegisteredServers:
    """Nobody else starts servers here; `at_look` is run whenever roots are asked for."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.known: list[tuple[str, str]] = []
        self.at_look: Any = lambda: None

    def roots(self) -> Collection[tuple[str, str]]:
        known = list(self.known)
        self.at_look()
        return known

    async def ready(self, root: str) -> Instance | Refusal | None:
        return None

    def ready_now(self, root: str) -> bool:
        return False

    def changed_event(self) -> asyncio.Event:
        return self.changed


class World:
    """Workspaces of a test; `now` is its clock."""

    def __init__(self, folder: Path, store: Store, **settings: Any) -> None:
        self.folder = folder
        self.now = 1000.0
        self.registered_servers = NoRegisteredServers()
        dependencies = Dependencies(Settings(**settings), store, folder, os.environ, now=lambda: self.now)
        examiner = FolderExaminer(deadline_s=0.05)
        self.workspaces = Workspaces(
            dependencies, examiner, self.registered_servers, home=None, windows=False
        )

    async def known(self, name: str) -> Workspace:
        root = make_project(self.folder / name)
        found = await self.workspaces.find(str(root), ambient=False)
        assert isinstance(found, Workspace)
        return found


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    store = Store(tmp_path / "state.db", set_aside_name=lambda: "x")
    await store.open()
    made = World(tmp_path.resolve(), store, start_timeout_s=10, grace_s=5, workspace_idle_s=60)
    yield made
    async with asyncio.timeout(BOUND):
        await made.workspaces.close()
    await store.close()


@pytest.fixture
def hung_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No question about a folder is answered any more."""
    release = threading.Event()

    def hang(_: object) -> None:
        release.wait(30)

    yield monkeypatch.setattr(filesystem, "identify_root", hang) or monkeypatch.setattr(
        filesystem, "examine", hang
    )
    release.set()


async def test_a_disk_that_hangs_stops_no_server(world: World, request: pytest.FixtureRequest) -> None:
    """That the folder is gone must be known, not feared."""
    workspace = await world.known("proj")
    before = await world.workspaces.ready(workspace)
    assert isinstance(before, Instance)
    request.getfixturevalue("hung_disk")
    world.now += ROOT_CHECK_S + 1
    assert await world.workspaces.ready(workspace) is before
    assert before.is_alive


async def test_a_busy_workspace_is_looked_at_beside_its_calls(world: World) -> None:
    workspace = await world.known("proj")
    server = await world.workspaces.ready(workspace)
    for _ in range(3):
        world.now += ROOT_RECHECK_S + 0.1
        assert world.workspaces.ready_now(workspace, world.now) is server
        assert workspace.root_check is not None
        assert await workspace.root_check is True
    Path(workspace.root).rename(world.folder / "elsewhere")
    world.now += ROOT_RECHECK_S + 0.1
    assert world.workspaces.ready_now(workspace, world.now) is server
    assert await workspace.root_check is False
    assert world.workspaces.ready_now(workspace, world.now) is None
    refusal = await world.workspaces.ready(workspace)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.WORKSPACE_GONE


async def test_no_server_is_started_on_a_disk_that_hangs(
    world: World, request: pytest.FixtureRequest
) -> None:
    """Entering the folder would hang, too."""
    workspace = await world.known("proj")
    request.getfixturevalue("hung_disk")
    world.now += ROOT_CHECK_S + 1
    refusal = await world.workspaces.ready(workspace)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.WORKSPACE_GONE


async def test_a_registration_in_the_middle_of_a_look_is_not_missed(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is matched at once, not when the next look is due."""
    place = tmp_path.resolve() / "plain"
    place.mkdir()

    def register() -> None:
        world.registered_servers.known = [(str(place), str(place))]
        world.registered_servers.changed.set()

    world.registered_servers.at_look = register
    loop = asyncio.get_running_loop()
    began = loop.time()
    found = await world.workspaces.find_or_wait(str(place))
    assert isinstance(found, Workspace)
    assert loop.time() - began < 0.4


async def test_idle_servers_are_stopped_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not want to end holds up neither the others nor the housekeeping."""
    made = [await world.known(name) for name in ("a", "b")]
    for workspace in made:
        assert isinstance(await world.workspaces.ready(workspace), Instance)
    both = asyncio.Barrier(2)
    stop = Supervisor.stop

    async def stop_with_the_other(supervisor: Supervisor) -> None:
        await both.wait()
        await stop(supervisor)

    monkeypatch.setattr(Supervisor, "stop", stop_with_the_other)
    world.now += 61
    async with asyncio.timeout(BOUND):
        await world.workspaces.stop_idle(())
    assert [one.supervisor.instance for one in made] == [None, None]
    monkeypatch.undo()
