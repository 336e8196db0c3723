"""Real MCP servers that others wrote; tested only where that is asked for: `scripts/test --real-servers`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.real_servers import INSTALL_S, Installed, install

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test of all installs the servers, and that takes longer than a test may."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(INSTALL_S + 60))


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The servers, installed. Every test of this folder needs it."""
    if not request.config.getoption("--real-servers"):
        pytest.skip("servers of others are tested with --real-servers only")
    # the parent is the same folder for all processes of one run
    return install(tmp_path_factory.getbasetemp().parent / "real-servers.lock")
