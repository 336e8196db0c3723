"""Leaves the tests in a browser out unless `--browser` asks for them; the first of them installs its host."""

from __future__ import annotations

import pytest

from support import groups
from support.clients.app_host import INSTALL_S


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    groups.leave_out_users(config, items, "app_pages", "--browser", seconds=INSTALL_S + 60)
