from __future__ import annotations

from pathlib import Path

import pytest

from support.projects.config_home import ConfigHome


@pytest.fixture
def home(tmp_path: Path) -> ConfigHome:
    """A workspace and a user without any configuration."""
    return ConfigHome(tmp_path)
