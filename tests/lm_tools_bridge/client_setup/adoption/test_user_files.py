"""Tests which servers of a user's files move, that they mean the same then, and that undo restores every byte."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.client_setup.adoption.adoption_files import PlannedAdoption
from lm_tools_bridge.client_setup.adoption.decision import Adoption
from lm_tools_bridge.client_setup.adoption.user_files import UserFiles
from lm_tools_bridge.client_setup.clients import Machine

CLAUDE, CODEX, GEMINI = ".claude.json", ".codex/config.toml", ".gemini/settings.json"
OPENCODE, VSCODE, CURSOR = (
    ".config/opencode/opencode.json",
    ".config/Code/User/mcp.json",
    ".cursor/mcp.json",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def files(home: Path) -> UserFiles:
    target = home / ".config/lm-tools-bridge/workspace.toml"
    return UserFiles(Machine({}, home, "linux"), home.parent / "state", str(target))


def put(home: Path, path: str, content: str | dict[str, Any]) -> Path:
    file = home / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    return file


def planned(files: UserFiles) -> PlannedAdoption:
    found = files.plan()
    assert isinstance(found, PlannedAdoption), found
    return found


def adopt(files: UserFiles) -> Adoption:
    plan = planned(files)
    assert files.adopt(plan) is None
    return plan.adoption


def moved(files: UserFiles) -> list[dict[str, Any]]:
    mcp = tomllib.loads(Path(files.target).read_text())["mcp"]
    return [*mcp.get("stdio_servers", []), *mcp.get("remote_servers", [])]


def snapshot(home: Path) -> dict[Path, bytes]:
    return {one: one.read_bytes() for one in home.rglob("*") if one.is_file()}


@pytest.mark.parametrize(
    ("path", "container", "entry", "table"),
    [
        (CLAUDE, "mcpServers", {"command": "x", "args": ["${A}"], "env": {"T": "s"}},
         {"command": ["x", "${A}"], "env": {"T": "s"}}),
        (GEMINI, "mcpServers", {"httpUrl": "https://a.example/$X", "headers": {"K": "${Y}"}, "includeTools": ["t"]},
         {"url": "https://a.example/${X}", "headers": {"K": "${Y}"}, "include": ["t"], "transport": "http"}),
        (GEMINI, "mcpServers", {"url": "https://a.example/sse"}, {"url": "https://a.example/sse", "transport": "sse"}),
        (OPENCODE, "mcp", {"type": "local", "command": ["x", "{env:A}"], "environment": {"T": "s"},
                           "enabled": False},
         {"command": ["x", "${A:-}"], "env": {"T": "s"}, "enabled": False}),
        (OPENCODE, "mcp", {"type": "remote", "url": "https://a.example/mcp", "headers": {"K": "v"}},
         {"url": "https://a.example/mcp", "headers": {"K": "v"}}),
        (VSCODE, "servers", {"type": "stdio", "command": "~/x", "env": {"T": "${env:T}"}},
         {"command": ["~/x"], "env": {"T": "${env:T}"}}),
        (CURSOR, "mcpServers", {"url": "https://a.example/mcp"}, {"url": "https://a.example/mcp"}),
    ],
)  # fmt: skip
def test_entries_of_each_client_become_those_of_workspace_toml(
    files: UserFiles, home: Path, path: str, container: str, entry: Any, table: Any
) -> None:
    before = {"mine": 1, container: {"a": entry, "lm-tools-bridge": {"url": "http://127.0.0.1:47100/mcp"}}}
    file = put(home, path, before)
    bytes_before = snapshot(home)
    adoption = adopt(files)
    assert [one.name for one in adoption.moved] == ["a"]
    assert moved(files) == [{"namespace": "a", **table}]
    del before[container]["a"]
    assert json.loads(file.read_text()) == before
    assert Path(files.target).stat().st_mode & 0o077 == 0
    undo = files.plan_undo()
    assert isinstance(undo, tuple) and files.undo(undo) is None
    assert snapshot(home) == bytes_before


def test_a_server_of_codex_moves_with_its_comments_and_the_rest_stays(files: UserFiles, home: Path) -> None:
    text = """# mine
model = "m"  # why

[mcp_servers.docs]
# the documents
command = "npx"
args = ["-y", "docs"]
required = true
tool_timeout_sec = 40
enabled_tools = ["get"]
[mcp_servers.docs.env]
TOKEN = "s"

[mcp_servers.web]
url = "https://a.example/mcp"
bearer_token_env_var = "WEB"
env_http_headers = { "X-User" = "USER" }

[tui] # last
"""
    file = put(home, CODEX, text)
    adopt(files)
    assert tomllib.loads(file.read_text()) == {"model": "m", "tui": {}}
    assert file.read_text().startswith('# mine\nmodel = "m"  # why\n')
    assert moved(files) == [
        {"namespace": "docs", "command": ["npx", "-y", "docs"], "env": {"TOKEN": "s"}, "include": ["get"],
         "timeout_s": 40},
        {"namespace": "web", "url": "https://a.example/mcp", "token_env": "WEB", "headers": {"X-User": "${USER}"}},
    ]  # fmt: skip
    assert "# the documents\n[[mcp.stdio_servers]]" in Path(files.target).read_text()
    undo = files.plan_undo()
    assert isinstance(undo, tuple) and files.undo(undo) is None
    assert file.read_text() == text


def test_addresses_of_a_private_network_stay_reachable(files: UserFiles, home: Path) -> None:
    hosts = {"a": "10.0.0.1", "b": "nas.local", "c": "intranet", "d": "localhost:80", "e": "a.example"}
    put(home, CURSOR, {"mcpServers": {name: {"url": f"http://{host}/mcp"} for name, host in hosts.items()}})
    adopt(files)
    assert [one["namespace"] for one in moved(files) if one.get("allow_private")] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("path", "container", "entry", "reason"),
    [
        (OPENCODE, "mcp", {"type": "local", "command": ["x", "{file:~/key}"]}, "in opencode only"),
        (OPENCODE, "mcp", {"type": "local", "command": ["x", "${A}"]}, "means something else"),
        (GEMINI, "mcpServers", {"command": "x", "trust": True}, '"trust"'),
        (VSCODE, "servers", {"command": "x", "args": ["${input:key}"]}, "only VS Code has a value"),
        (CURSOR, "mcpServers", {"command": "x", "args": ["${A}"]}, "means something else"),
    ],
)
def test_what_has_no_equal_stays_with_the_reason(
    files: UserFiles, home: Path, path: str, container: str, entry: Any, reason: str
) -> None:
    put(home, path, {container: {"a": entry}})
    adoption = planned(files).adoption
    assert adoption.changes == {}
    assert reason in str(adoption.left[0].reason)


def test_servers_for_one_project_of_claude_code_stay_with_that_project(files: UserFiles, home: Path) -> None:
    docs, web = {"command": "docs"}, {"type": "http", "url": "https://a.example/mcp"}
    sections = {
        "/srv/a": {"mcpServers": {"docs": docs, "web": web}, "history": []},
        "/srv/b": {"mcpServers": {"docs": docs}},
        "/srv/c": {"mcpServers": {}},
    }
    file = put(home, CLAUDE, {"mcpServers": {"web": web}, "projects": sections})
    adopt(files)
    assert moved(files) == [
        {"namespace": "docs", "command": ["docs"], "projects": ["/srv/a", "/srv/b"]},
        {"namespace": "web", "url": "https://a.example/mcp", "transport": "http"},
    ]
    left = json.loads(file.read_text())
    assert left["mcpServers"] == {} and left["projects"]["/srv/a"] == {"mcpServers": {}, "history": []}


def test_one_server_of_several_clients_moves_once(files: UserFiles, home: Path) -> None:
    put(home, CLAUDE, {"mcpServers": {"docs": {"command": "npx", "args": ["docs"]}}})
    put(home, CODEX, '[mcp_servers.docs]\ncommand = "npx"\nargs = ["docs"]\n')
    put(home, CURSOR, {"mcpServers": {"docs": {"command": "other"}}})
    adoption = adopt(files)
    assert [one.file.client for one in adoption.moved] == ["Claude Code", "Codex"]
    assert "differs" in str(adoption.left[0].reason)
    assert len(moved(files)) == 1
