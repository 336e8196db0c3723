"""Clients that others wrote; tested only where that is asked for: `scripts/test --clients`."""

from __future__ import annotations

import pytest

from support.clients.client_table import Installed
from support.groups import leave_out_users
from support.processes.installations.installing import install, shared_lock

INSTALL_S = 240.0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave those out that run a client, or give them time: the first one installs the clients."""
    leave_out_users(config, items, "clients", "--clients", seconds=INSTALL_S + 120)


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The clients, installed."""
    lock = shared_lock(tmp_path_factory, "clients")
    return Installed(install("clients of others", "clients", seconds=INSTALL_S, lock=lock))
