"""Projects on other hosts over a real ssh server; tested only where that is asked for: `scripts/test --remote`."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out."""
    if not config.getoption("--remote"):
        ours = [item for item in items if item.path.is_relative_to(HERE)]
        config.hook.pytest_deselected(items=ours)
        items[:] = [item for item in items if item not in ours]
