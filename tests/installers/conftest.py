"""Installers of others; tested only where that is asked for: `scripts/test --clients`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.groups import leave_out_users
from support.processes.installations.wheel import build_wheel

INSTALL_S = 300.0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave those out that install the wheel, or give them time: its dependencies come from a package index."""
    leave_out_users(config, items, "installed_wheel", "--clients", seconds=INSTALL_S + 120)


@pytest.fixture(scope="session")
def installed_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of these sources; its tests reach a package index."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))
