"""Fixtures of the tests with real manager processes, which all are of the group `processes`.

The folders:
`lifecycle`: starts, restarts and stops of the manager, as a service and for its clients;
`deaths`: killed managers, workspace servers and recorders, and what goes on after them;
`faults`: disks, files, clocks and neighbours that fail;
`isolation`: what users, projects and versions of the program do not share, and what clients do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession

from support.processes.managers.manager_home import ManagerHome, manager_home

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before groups leave tests out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.processes)


@pytest.fixture
async def home(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[ManagerHome]:
    """Folders of a user on which managers can be started; nothing of them may outlive the test.

    Workspace servers are started anew, unless a test is one of those that are run with forked ones as well.
    """
    async with manager_home(tmp_path / "user", forks=getattr(request, "param", False)) as made:
        yield made


@pytest.fixture
async def http() -> AsyncIterator[ClientSession]:
    """An HTTP session for clients."""
    async with ClientSession() as session:
        yield session
