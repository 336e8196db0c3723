"""Real MCP servers that others wrote; tested only where that is asked for: `scripts/test --real-servers`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.groups import leave_out_folder
from support.processes.installations.installing import install
from support.servers.mcp_sources.real_servers import INSTALL_S, Installed


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out, or give them time: the first one installs the servers."""
    leave_out_folder(config, items, Path(__file__).parent, "--real-servers", seconds=INSTALL_S + 60)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The servers, installed."""
    # the parent is the same folder for all processes of one run
    lock = tmp_path_factory.getbasetemp().parent / "real-servers.lock"
    return Installed(install("servers of others", "real-servers", seconds=INSTALL_S, lock=lock))
