"""A team on real NATS servers; tested only where that is asked for: `scripts/test --nats`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.groups import leave_out_folder
from support.processes.installations.installing import install, shared_lock

INSTALL_S = 120.0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out, or give them time: the first one installs the server."""
    leave_out_folder(config, items, Path(__file__).parent, "--nats", seconds=INSTALL_S + 180)


@pytest.fixture(scope="session")
def nats_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program nats-server."""
    lock = shared_lock(tmp_path_factory, "nats-servers")
    return install("NATS server", "nats-servers", seconds=INSTALL_S, lock=lock) / "nats-server"
