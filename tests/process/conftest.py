"""Fixtures of the tests with real manager processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession

from support.processes.manager_home import ManagerHome, manager_home


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
