"""Clients that others wrote; tested only where that is asked for: `scripts/test --clients`."""

from __future__ import annotations

import pytest

from support.clients.client_table import Installed
from support.processes.installing import install

INSTALL_S = 240.0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave those out that run a client, or give them time: the first one installs the clients."""
    ours = [item for item in items if "clients" in getattr(item, "fixturenames", ())]
    if not config.getoption("--clients"):
        config.hook.pytest_deselected(items=ours)
        items[:] = [item for item in items if item not in ours]
    for item in ours:
        item.add_marker(pytest.mark.timeout(INSTALL_S + 120))


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The clients, installed."""
    # the parent is the same folder for all processes of one run
    lock = tmp_path_factory.getbasetemp().parent / "clients.lock"
    return Installed(install("clients of others", "clients", seconds=INSTALL_S, lock=lock))
