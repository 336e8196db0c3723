"""The VS Code extension LM Tools Bridge, unmodified; only where that is asked for: `scripts/test --clients`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.groups import leave_out_users
from support.processes.installations.installing import install, shared_lock

INSTALL_S = 300.0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out, or give them time: the first one builds the extension."""
    leave_out_users(config, items, "extension", "--clients", seconds=INSTALL_S + 120)


@pytest.fixture(scope="session")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with its versions."""
    lock = shared_lock(tmp_path_factory, "editor-extension")
    return install("the VS Code extension", "editor-extension", seconds=INSTALL_S, lock=lock)
