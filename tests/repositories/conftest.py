"""Source trees that others wrote; tested only where that is asked for: `scripts/test --repositories`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.groups import leave_out_folder
from support.processes.installations.installing import install, shared_lock
from support.servers.language_servers.real_language_servers import INSTALL_S

TREES_S = 120.0
"""Longest time to get the trees: 5 MB."""
ASK_S = 900.0
"""Longest time for all questions about one tree: each may read files that were never read before."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out, or give them time: the first one installs servers and gets the trees."""
    seconds = INSTALL_S + TREES_S + ASK_S
    leave_out_folder(config, items, Path(__file__).parent, "--repositories", seconds=seconds)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the language servers."""
    lock = shared_lock(tmp_path_factory, "language-servers")
    return install("language servers of others", "language-servers", seconds=INSTALL_S, lock=lock)


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the trees."""
    lock = shared_lock(tmp_path_factory, "public-repositories")
    return install("source trees of others", "public-repositories", seconds=TREES_S, lock=lock)
