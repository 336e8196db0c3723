"""Leaves the tests in a browser out unless `--browser` asks for them."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    outward = [item for item in items if item.path.name == "test_page_in_browser.py"]
    if not config.getoption("--browser"):
        config.hook.pytest_deselected(items=outward)
        items[:] = [item for item in items if item not in outward]
