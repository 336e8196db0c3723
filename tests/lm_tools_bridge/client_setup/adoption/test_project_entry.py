"""Tests which entries of clients' files mean the same in `workspace.toml`, and why others stay."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.client_setup.adoption.file_formats import PROJECT_FILES
from lm_tools_bridge.client_setup.adoption.project_entry import (
    TomlEntry,
    Untranslatable,
    leads_to_manager,
    translate,
)
from manager.routing.client_profiles import PROFILES

CLAUDE, VSCODE, CURSOR = PROJECT_FILES


@pytest.mark.parametrize("file", PROJECT_FILES, ids=lambda file: file.path)
def test_each_file_belongs_to_the_client_that_starts_its_servers(file: Any) -> None:
    owners = [one.title for one in PROFILES if file.path in one.own_files]
    assert file.client in owners


def test_keys_of_clients_become_those_of_workspace_toml() -> None:
    entry = {"command": "npx", "args": ["-y", 1], "envFile": ".env", "timeout": 30000, "disabled": True}
    assert translate("a", entry, CLAUDE) == TomlEntry(
        "stdio_servers",
        {
            "namespace": "a",
            "command": ["npx", "-y", "1"],
            "env_file": ".env",
            "timeout_s": 30,
            "enabled": False,
        },
    )


@pytest.mark.parametrize(
    ("file", "written", "transport"),
    [(CLAUDE, "http", "http"), (VSCODE, "http", None), (CLAUDE, "sse", "sse"), (CURSOR, None, None)],
)
def test_http_allows_the_older_transport_where_the_client_does(
    file: Any, written: str | None, transport: str | None
) -> None:
    entry = {"url": "https://a.example/mcp", **({"type": written} if written else {})}
    made = translate("a", entry, file)
    assert isinstance(made, TomlEntry)
    assert made.table.get("transport") == transport


def test_placeholders_stay_as_they_are() -> None:
    env = {"A": "${env:A}", "B": "${workspaceFolder}/b", "C": "${userHome}"}
    for file in PROJECT_FILES:
        made = translate("a", {"command": "x", "env": env}, file)
        assert isinstance(made, TomlEntry)
        assert made.table["env"] == env
    made = translate("a", {"command": "x", "env": {"A": "${A:-b}"}}, CLAUDE)
    assert isinstance(made, TomlEntry)
    assert made.table["env"] == {"A": "${A:-b}"}


@pytest.mark.parametrize(
    ("file", "entry", "reason"),
    [
        (CLAUDE, {"command": "x", "description": "d"}, "description"),
        (CLAUDE, {"command": "x", "alwaysAllow": ["a"]}, "alwaysAllow"),
        (VSCODE, {"command": "x", "args": ["${input:key}"]}, "${input:key}"),
        (CLAUDE, {"url": "https://a/${config:x}"}, "${config:x}"),
        (VSCODE, {"command": "x", "env": {"A": "${A}"}}, "${A}"),
        (VSCODE, {"command": "x", "env": {"A": "${cwd:-x}"}}, "${cwd:-x}"),
        (CURSOR, {"command": "${file}"}, "${file}"),
        (CLAUDE, {"command": "~/bin/x"}, "~"),
        (CLAUDE, {"command": "x", "cwd": "~"}, "~"),
        (VSCODE, {"command": "x", "env": {"A": None}}, "env"),
        (CLAUDE, {"command": "x", "args": None}, "args"),
        (CLAUDE, {"command": "x", "url": "https://a"}, "url"),
        (CLAUDE, {"url": "https://a", "args": []}, "args"),
        (CLAUDE, {"url": "https://a", "type": "websocket"}, "type"),
        (CLAUDE, {"url": "https://a", "type": "http", "transport": "sse"}, "transport"),
        (CLAUDE, {"command": "x", "timeout": 1000, "timeout_s": 2}, "timeout"),
        (CLAUDE, {"url": "https://a", "oauth": {"callbackPort": 1}}, "callbackPort"),
        (CLAUDE, {"command": "x", "namespace": ""}, "namespace"),
        (CLAUDE, {"command": "x\0"}, "character"),
        (CLAUDE, {"command": "\ud800"}, "character"),
        (CLAUDE, {"command": "lmtb", "args": ["connect"]}, "LM Tools Bridge"),
        (CLAUDE, {"args": ["x"]}, "missing"),
        (CLAUDE, "text", "not an object"),
    ],
    ids=str,
)
def test_what_would_be_lost_or_change_its_meaning_stays(file: Any, entry: Any, reason: str) -> None:
    made = translate("a", entry, file)
    assert isinstance(made, Untranslatable)
    assert reason in made.reason


@pytest.mark.parametrize(
    ("entry", "leads"),
    [
        ({"url": "http://127.0.0.1:48000/mcp"}, True),
        ({"command": "npx", "args": ["mcp-remote", "http://localhost:47999/mcp"]}, True),
        ({"command": "uvx", "args": ["lm-tools-bridge@1.2", "connect"]}, True),
        ({"command": "npx", "args": ["mcp-remote", "https://docs.example.com/mcp"]}, False),
        ({"url": "http://127.0.0.1:8000/sse"}, False),
    ],
)
def test_entries_that_connect_the_client_to_a_manager_are_known(entry: Any, leads: bool) -> None:
    assert leads_to_manager(entry) is leads
