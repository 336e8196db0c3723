"""A user's folders, and a person at the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.projects.command_home import Home, make_home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return make_home(tmp_path, monkeypatch)
