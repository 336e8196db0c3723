"""Tests of the table of workspaces: hanging disks, registrations during a lookup, idle stops."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.configuration.settings import Settings
from manager.disk import filesystem
from manager.disk.filesystem import FolderExaminer
from manager.state_file import Store
from manager.supervision import workspaces
from manager.supervision.dependencies import Dependencies
from manager.supervision.instance import Instance
from manager.supervision.supervisor import Supervisor
from manager.supervision.unused_workspaces import stop_idle
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import ROOT_CHECK_S, ROOT_RECHECK_S, Workspaces
from support.processes.managers.manager_in_process import make_project
from support.processes.timeouts import GUARD_S
from support.servers.no_registered_servers import NoRegisteredServers

BOUND = 15.0


class WorkspacesSetup:
    """A table of workspaces in a folder, with `now` as its clock."""

    def __init__(self, folder: Path, store: Store, **settings: Any) -> None:
        self.folder = folder
        self.now = 1000.0
        self.registered_servers = NoRegisteredServers()
        dependencies = Dependencies(Settings(**settings), store, folder, os.environ, now=lambda: self.now)
        examiner = FolderExaminer(deadline_s=0.5)
        self.workspaces = Workspaces(
            dependencies, examiner, self.registered_servers, home=None, windows=False
        )

    async def known(self, name: str) -> Workspace:
        root = make_project(self.folder / name)
        found = await self.workspaces.find(str(root), ambient=False)
        assert isinstance(found, Workspace)
        return found


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[WorkspacesSetup]:
    store = Store(tmp_path / "state.db", set_aside_name=lambda: "x")
    await store.open()
    made = WorkspacesSetup(tmp_path.resolve(), store, start_timeout_s=10, grace_s=5, workspace_idle_s=60)
    yield made
    async with asyncio.timeout(BOUND):
        await made.workspaces.close()
    await store.close()


@pytest.fixture
def hung_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """File system calls about folders hang until the end of the test."""
    release = threading.Event()

    def hang(_: object) -> None:
        release.wait(30)

    yield monkeypatch.setattr(filesystem, "identify_root", hang) or monkeypatch.setattr(
        filesystem, "examine", hang
    )
    release.set()


@pytest.mark.processes
async def test_a_hanging_disk_stops_no_server(setup: WorkspacesSetup, request: pytest.FixtureRequest) -> None:
    """Only a folder that is known to be missing stops its server."""
    workspace = await setup.known("proj")
    before = await setup.workspaces.ready(workspace)
    assert isinstance(before, Instance)
    request.getfixturevalue("hung_disk")
    setup.now += ROOT_CHECK_S + 1
    assert await setup.workspaces.ready(workspace) is before
    assert before.is_alive


@pytest.mark.processes
async def test_the_folder_of_a_busy_workspace_is_checked_in_the_background(setup: WorkspacesSetup) -> None:
    workspace = await setup.known("proj")
    server = await setup.workspaces.ready(workspace)
    for _ in range(3):
        setup.now += ROOT_RECHECK_S + 0.1
        assert setup.workspaces.ready_now(workspace, setup.now) is server
        assert workspace.root_check is not None
        assert await workspace.root_check is True
    moved = setup.folder / "elsewhere"
    Path(workspace.root).rename(moved)
    setup.now += ROOT_RECHECK_S + 0.1
    assert setup.workspaces.ready_now(workspace, setup.now) is server
    assert await workspace.root_check is False
    assert setup.workspaces.ready_now(workspace, setup.now) is None
    for _ in range(2):  # also after its server was stopped
        refusal = await setup.workspaces.ready(workspace)
        assert isinstance(refusal, Refusal)
        assert refusal.reason is Reason.WORKSPACE_GONE
        assert f"its folder seems to be {moved} now" in refusal.message


async def test_a_folder_that_was_deleted_since_its_last_check_is_the_reason_why_no_server_starts(
    setup: WorkspacesSetup,
) -> None:
    """The look at the folders of all servers has stopped its server already."""
    workspace = await setup.known("proj")
    shutil.rmtree(workspace.root)
    await workspace.supervisor.stop()
    refusal = await setup.workspaces.ready(workspace)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.WORKSPACE_GONE


async def test_no_server_is_started_on_a_hanging_disk(
    setup: WorkspacesSetup, request: pytest.FixtureRequest
) -> None:
    """The start would hang in the folder, too."""
    workspace = await setup.known("proj")
    request.getfixturevalue("hung_disk")
    setup.now += ROOT_CHECK_S + 1
    refusal = await setup.workspaces.ready(workspace)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.WORKSPACE_GONE


async def test_a_registration_during_a_lookup_is_not_missed(
    tmp_path: Path, setup: WorkspacesSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workspace is found immediately, not with the next periodic lookup."""
    place = tmp_path.resolve() / "plain"
    place.mkdir()

    def register() -> None:
        setup.registered_servers.known = [(str(place), str(place))]
        setup.registered_servers.changed.set()

    setup.registered_servers.on_roots = register
    monkeypatch.setattr(workspaces, "LOOK_AGAIN_S", GUARD_S)
    async with asyncio.timeout(0.8 * Settings().match_wait_s):  # whose end is a search, too
        found = await setup.workspaces.find_or_wait(str(place))
    assert isinstance(found, Workspace)


@pytest.mark.processes
async def test_idle_servers_are_stopped_concurrently(
    setup: WorkspacesSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ends slowly delays neither the others nor the housekeeping."""
    made = [await setup.known(name) for name in ("a", "b")]
    for workspace in made:
        assert isinstance(await setup.workspaces.ready(workspace), Instance)
    both = asyncio.Barrier(2)
    stop = Supervisor.stop

    async def stop_with_the_other(supervisor: Supervisor) -> None:
        await both.wait()
        await stop(supervisor)

    monkeypatch.setattr(Supervisor, "stop", stop_with_the_other)
    setup.now += 61
    async with asyncio.timeout(BOUND):
        await stop_idle(setup.workspaces, (), 60, setup.now)
    assert [one.supervisor.instance for one in made] == [None, None]
    monkeypatch.undo()


async def test_a_link_is_followed_with_every_look_up(setup: WorkspacesSetup) -> None:
    """No call goes to the project that the link led to before."""
    first, second = await setup.known("first"), await setup.known("second")
    link = setup.folder / "link"
    link.symlink_to(first.root)
    assert await setup.workspaces.find(str(link), ambient=True) is first
    link.unlink()
    link.symlink_to(second.root)
    assert setup.workspaces.cached(str(link)) is None
    assert await setup.workspaces.find(str(link), ambient=True) is second


async def test_a_folder_named_without_links_is_not_read_again_at_once(setup: WorkspacesSetup) -> None:
    project = await setup.known("proj")
    assert await setup.workspaces.find(f"{project.root}/", ambient=True) is project
    placement = setup.workspaces.cached(f"{project.root}/")
    assert placement is not None
    assert placement.workspace is project
