"""Language servers that others wrote; tested only where that is asked for: `scripts/test --languages`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.processes.installing import install, shared_lock
from support.servers.real_language_servers import INSTALL_S

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out, or give them time: the first one installs the servers."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    if not config.getoption("--languages"):
        config.hook.pytest_deselected(items=ours)
        items[:] = [item for item in items if item not in ours]
    for item in ours:
        item.add_marker(pytest.mark.timeout(INSTALL_S + 60))


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the servers."""
    lock = shared_lock(tmp_path_factory, "language-servers")
    return install("language servers of others", "language-servers", seconds=INSTALL_S, lock=lock)
