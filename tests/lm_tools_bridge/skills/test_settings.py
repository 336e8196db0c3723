"""The table `[skills]` of a `workspace.toml`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.projects.config_home import ConfigHome


@pytest.fixture
def home(tmp_path: Path) -> ConfigHome:
    return ConfigHome(tmp_path)


@pytest.mark.parametrize(
    ("user", "workspace", "there", "codes"),
    [
        ("", "", True, []),
        ("enabled = false", "enabled = true", False, []),
        ("", "enabled = false", False, []),
        ("", 'enabled = "no"', False, ["CONFIG_INVALID_VALUE"]),
        ("enable = false", "", True, ["CONFIG_UNKNOWN_KEY"]),
    ],
)
def test_either_file_can_switch_skills_off(
    home: ConfigHome, user: str, workspace: str, there: bool, codes: list[str]
) -> None:
    home.user(f"[skills]\n{user}")
    home.workspace(f"[skills]\n{workspace}")
    assert home.current().features["skills"] is there
    assert home.codes() == codes
