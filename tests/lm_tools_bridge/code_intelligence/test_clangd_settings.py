"""Settings of the clangd tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.settings import ClangdSettings
from support.projects.config_home import ConfigHome


@pytest.fixture
def home(tmp_path: Path) -> ConfigHome:
    return ConfigHome(tmp_path)


def test_without_settings_there_are_no_clangd_tools(home: ConfigHome) -> None:
    assert home.current().features["code_intelligence"].clangd == ClangdSettings()


def test_every_setting_is_read_and_the_workspaces_takes_precedence(home: ConfigHome) -> None:
    home.user("[clangd]\nenabled = true\nrequestTimeoutMs = 5000\nallowedMethods = ['workspace/symbol']\n")
    home.workspace("[clangd]\nautoStartOnInvoke = false\nenablePassthrough = false\nrequestTimeoutMs = 100\n")
    assert home.current().features["code_intelligence"].clangd == ClangdSettings(
        enabled=True,
        auto_start=False,
        passthrough=False,
        request_timeout_ms=100,
        allowed_methods=("workspace/symbol",),
    )
    assert home.codes() == []


def test_the_editors_settings_count_where_no_workspace_file_says_otherwise(home: ConfigHome) -> None:
    settings = home.root / ".vscode" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"lmToolsBridge.clangd.enabled": True}))
    assert home.current().features["code_intelligence"].clangd.enabled


@pytest.mark.parametrize(
    "line", ["enabled = 1", "requestTimeoutMs = 99", "requestTimeoutMs = true", "allowedMethods = 'x'"]
)
def test_a_wrong_value_is_ignored_with_a_warning(home: ConfigHome, line: str) -> None:
    home.user(f"[clangd]\n{line}\n")
    assert home.current().features["code_intelligence"].clangd == ClangdSettings()
    assert home.codes() == ["CONFIG_INVALID_VALUE"]


def test_an_unknown_key_is_told(home: ConfigHome) -> None:
    home.user("[clangd]\nenable = true\n")
    assert home.current().features["code_intelligence"].clangd == ClangdSettings()
    assert home.codes() == ["CONFIG_UNKNOWN_KEY"]
