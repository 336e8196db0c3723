"""Projects on other hosts over a real ssh server; tested only where that is asked for: `scripts/test --remote`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.groups import leave_out_folder


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out."""
    leave_out_folder(config, items, Path(__file__).parent, "--remote")
