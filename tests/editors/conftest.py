"""The VS Code extension LM Tools Bridge, unmodified; only where that is asked for: `scripts/test --clients`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.processes.installing import install, select_outward, shared_lock

INSTALL_S = 300.0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out, or give them time: the first one builds the extension."""
    select_outward(config, items, "extension", INSTALL_S)


@pytest.fixture(scope="session")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with its versions."""
    lock = shared_lock(tmp_path_factory, "editor-extension")
    return install("the VS Code extension", "editor-extension", seconds=INSTALL_S, lock=lock)
