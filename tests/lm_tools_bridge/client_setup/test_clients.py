"""Tests where each client keeps its file, and what is written into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.client_setup.change import is_ours
from lm_tools_bridge.client_setup.clients import CLIENTS, Machine, client_named
from lm_tools_bridge.client_setup.entries import Endpoint

HOME = Path("/home/me")
ENDPOINT = Endpoint(48123, "/opt/lmtb")


def places(name: str, platform: str = "linux", **environ: str) -> list[str]:
    client = client_named(name)
    assert client is not None
    return [path.as_posix() for path in client.candidates(Machine(environ, HOME, platform))]


def entry(name: str) -> Any:
    client = client_named(name)
    assert client is not None
    return client.entry(ENDPOINT)


@pytest.mark.parametrize(
    ("name", "linux", "macos"),
    [
        ("claude-code", ".claude.json", ".claude.json"),
        ("codex", ".codex/config.toml", ".codex/config.toml"),
        ("gemini-cli", ".gemini/settings.json", ".gemini/settings.json"),
        ("opencode", ".config/opencode/opencode.json", ".config/opencode/opencode.json"),
        ("vscode", ".config/Code/User/mcp.json", "Library/Application Support/Code/User/mcp.json"),
        ("cursor", ".cursor/mcp.json", ".cursor/mcp.json"),
        ("copilot-cli", ".copilot/mcp-config.json", ".copilot/mcp-config.json"),
        ("qwen-code", ".qwen/settings.json", ".qwen/settings.json"),
        ("kilo", ".config/kilo/kilo.json", ".config/kilo/kilo.json"),
        (
            "cline",
            ".cline/data/settings/cline_mcp_settings.json",
            ".cline/data/settings/cline_mcp_settings.json",
        ),
        ("continue", ".continue/config.yaml", ".continue/config.yaml"),
        ("grok", ".grok/config.toml", ".grok/config.toml"),
        ("crush", ".config/crush/crush.json", ".config/crush/crush.json"),
        ("droid", ".factory/mcp.json", ".factory/mcp.json"),
        ("goose", ".config/goose/config.yaml", ".config/goose/config.yaml"),
        ("kiro", ".kiro/settings/mcp.json", ".kiro/settings/mcp.json"),
        ("amp", ".config/amp/settings.json", ".config/amp/settings.json"),
        ("junie", ".junie/mcp/mcp.json", ".junie/mcp/mcp.json"),
        ("antigravity", ".gemini/config/mcp_config.json", ".gemini/config/mcp_config.json"),
        ("zed", ".config/zed/settings.json", ".config/zed/settings.json"),
        ("windsurf", ".codeium/windsurf/mcp_config.json", ".codeium/windsurf/mcp_config.json"),
        (
            "claude-desktop",
            ".config/Claude/claude_desktop_config.json",
            "Library/Application Support/Claude/claude_desktop_config.json",
        ),
    ],
)
def test_each_client_has_its_file_on_linux_and_macos(name: str, linux: str, macos: str) -> None:
    assert places(name)[-1] == f"{HOME}/{linux}"
    assert places(name, "darwin")[-1] == f"{HOME}/{macos}"


def test_every_client_is_tested() -> None:
    assert {client.id for client in CLIENTS} == set(ENTRIES)


@pytest.mark.parametrize(
    ("name", "variable", "file"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", "/x/.claude.json"),
        ("codex", "CODEX_HOME", "/x/config.toml"),
        ("gemini-cli", "GEMINI_CLI_HOME", "/x/.gemini/settings.json"),
        ("copilot-cli", "COPILOT_HOME", "/x/mcp-config.json"),
        ("qwen-code", "QWEN_HOME", "/x/settings.json"),
        ("cline", "CLINE_DIR", "/x/data/settings/cline_mcp_settings.json"),
        ("cline", "CLINE_DATA_DIR", "/x/settings/cline_mcp_settings.json"),
        ("continue", "CONTINUE_GLOBAL_DIR", "/x/config.yaml"),
        ("grok", "GROK_HOME", "/x/config.toml"),
        ("goose", "GOOSE_PATH_ROOT", "/x/config/config.yaml"),
        ("goose", "XDG_CONFIG_HOME", "/x/goose/config.yaml"),
        ("crush", "XDG_CONFIG_HOME", "/x/crush/crush.json"),
        ("kilo", "XDG_CONFIG_HOME", "/x/kilo/kilo.json"),
        ("opencode", "XDG_CONFIG_HOME", "/x/opencode/opencode.json"),
        ("vscode", "XDG_CONFIG_HOME", "/x/Code/User/mcp.json"),
        ("zed", "XDG_CONFIG_HOME", "/x/zed/settings.json"),
        ("claude-desktop", "XDG_CONFIG_HOME", "/x/Claude/claude_desktop_config.json"),
    ],
)
def test_the_variable_of_a_client_moves_its_file(name: str, variable: str, file: str) -> None:
    assert places(name, **{variable: "/x"})[-1] == file
    assert places(name, **{variable: ""}) == places(name)
    assert places(name, **{variable: "relative"}) == places(name)


def test_windows_keeps_desktop_programs_under_appdata() -> None:
    assert places("vscode", "win32")[-1] == f"{HOME}/AppData/Roaming/Code/User/mcp.json"
    assert places("zed", "win32", APPDATA="/roaming")[-1] == "/roaming/Zed/settings.json"


ENTRIES: dict[str, Any] = {
    "claude-code": {"type": "http", "url": "http://127.0.0.1:48123/mcp?cwd=${PWD}"},
    "codex": {
        "command": "/opt/lmtb",
        "args": ["connect"],
        "required": True,
        "startup_timeout_sec": 45,
    },
    "gemini-cli": {"httpUrl": "http://127.0.0.1:48123/mcp?cwd=$PWD"},
    "opencode": {"type": "remote", "url": "http://127.0.0.1:48123/mcp?cwd={env:PWD}", "enabled": True},
    "vscode": {"type": "http", "url": "http://127.0.0.1:48123/mcp"},
    "cursor": {"url": "http://127.0.0.1:48123/mcp"},
    "copilot-cli": {"type": "local", "command": "/opt/lmtb", "args": ["connect"], "tools": ["*"]},
    "qwen-code": {"httpUrl": "http://127.0.0.1:48123/mcp?cwd=$PWD"},
    "kilo": {"type": "remote", "url": "http://127.0.0.1:48123/mcp?cwd={env:PWD}", "enabled": True},
    "cline": {"transport": {"type": "streamableHttp", "url": "http://127.0.0.1:48123/mcp"}},
    "continue": {"command": "/opt/lmtb", "args": ["connect"]},
    "grok": {"command": "/opt/lmtb", "args": ["connect"], "enabled": True},
    "crush": {"type": "stdio", "command": "/opt/lmtb", "args": ["connect"]},
    "droid": {"type": "stdio", "command": "/opt/lmtb", "args": ["connect"]},
    "goose": {
        "enabled": True,
        "type": "stdio",
        "name": "lm-tools-bridge",
        "description": "Tools of the project",
        "command": "/opt/lmtb",
        "args": ["connect"],
        "timeout": 300,
    },
    "kiro": {"command": "/opt/lmtb", "args": ["connect"]},
    "amp": {"command": "/opt/lmtb", "args": ["connect"]},
    "junie": {"command": "/opt/lmtb", "args": ["connect"]},
    "antigravity": {"command": "/opt/lmtb", "args": ["connect"]},
    "zed": {"url": "http://127.0.0.1:48123/mcp"},
    "windsurf": {"serverUrl": "http://127.0.0.1:48123/mcp"},
    "claude-desktop": {"command": "/opt/lmtb", "args": ["connect"]},
}


@pytest.mark.parametrize("name", ENTRIES)
def test_each_client_gets_its_entry_with_the_port(name: str) -> None:
    assert entry(name) == ENTRIES[name]
    assert is_ours(entry(name))


def test_names_do_not_depend_on_letter_case_and_unknown_ones_are_none() -> None:
    assert client_named("Codex") is client_named("codex")
    assert client_named("nobody") is None
