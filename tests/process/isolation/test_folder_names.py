"""A folder is one project under all names that lead to it, and folders whose names differ only in case are two."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession

from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_home import ManagerHome, ManagerProcess, manager_home
from support.processes.managers.manager_in_process import make_project
from support.processes.mounts import NAMESPACE, needs_mounts
from support.projects.registered_setup import raw_http


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ManagerHome]:
    async with manager_home(tmp_path / "home") as one:
        yield one


@pytest.fixture
async def http() -> AsyncIterator[ClientSession]:
    async with raw_http() as session:
        yield session


async def workspace_ids(http: ClientSession, manager: ManagerProcess, *folders: Path) -> list[str]:
    """The workspace that each folder leads to, for a client of its own."""
    found = []
    for folder in folders:
        client = await SessionClient.connect(http, manager.address)
        payload = (await client.handshake(folder)).payload
        assert payload["ok"] is True
        found.append(payload["workspace"])
    return found


@needs_mounts
async def test_a_folder_with_two_names_is_one_project(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """As on a file system that ignores case: both paths exist, and have one device and inode."""
    project, other = make_project(tmp_path / "Repo"), tmp_path / "repo"
    other.mkdir()
    manager = await home.start(prefix=[*NAMESPACE, f'mount --bind {project} {other} && exec "$@"', "sh"])
    (project / "inner").mkdir()
    ids = await workspace_ids(http, manager, project, other, other / "inner", project / "inner")
    assert len(set(ids)) == 1
    status = await home.status()
    assert len(status["workspaceDetails"]) == 1


async def test_folders_whose_names_differ_in_case_are_two_projects(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    first = make_project(tmp_path / "Repo")
    if (tmp_path / "repo").exists():
        pytest.skip("this file system ignores case")
    manager = await home.start()
    ids = await workspace_ids(http, manager, first, make_project(tmp_path / "repo"))
    assert len(set(ids)) == 2
