"""Language servers that others wrote; tested only where that is asked for: `scripts/test --languages`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.groups import leave_out_folder
from support.processes.installations.installing import install, shared_lock
from support.servers.language_servers.real_language_servers import INSTALL_S


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out, or give them time: the first one installs the servers."""
    leave_out_folder(config, items, Path(__file__).parent, "--languages", seconds=INSTALL_S + 60)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the servers."""
    lock = shared_lock(tmp_path_factory, "language-servers")
    return install("language servers of others", "language-servers", seconds=INSTALL_S, lock=lock)
