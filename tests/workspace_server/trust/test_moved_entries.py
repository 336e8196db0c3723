"""An entry that moves to another file stays trusted, and nothing else does."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.client_setup.adoption.adoption_files import PlannedAdoption, PlannedUndo, ProjectFiles
from workspace_server.command.trust_view import all_items
from workspace_server.config.load import WORKSPACE_FILE
from workspace_server.trust.moved_entries import files_of_same_meaning
from workspace_server.trust.store import TrustStore

STDIO = {"command": "node", "args": ["./server.js", "--port", 1], "env": {"URL": "${DATABASE_URL}"}}
VARIABLES = {"DATABASE_URL": "db://", "OTHER_URL": "other://", "SECRET": "hidden"}
REMOTE = {"type": "http", "url": "https://a.example/mcp", "headers": {"X-Key": "${KEY:-none}"}}


class TrustedProject:
    """A project whose servers of `.mcp.json` were trusted."""

    def __init__(self, folder: Path, **servers: Any) -> None:
        self.root, self.state = folder / "ws", folder / "state"
        self._config = folder / "config"
        self.root.mkdir()
        (self.root / "server.js").write_text("serve()\n")
        self.write(**servers)
        self._store = TrustStore(self.state / "trust")
        self._store.trust(self.root, self._items())

    def write(self, **servers: Any) -> None:
        (self.root / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def write_toml(self, text: str) -> None:
        (self.root / WORKSPACE_FILE).parent.mkdir(exist_ok=True)
        (self.root / WORKSPACE_FILE).write_text(text)

    def _items(self) -> Any:
        return all_items(self.root, self._config, {**os.environ, **VARIABLES})

    def verdicts(self) -> dict[str, str]:
        return {**self._store.item_verdicts(self.root, self._items())}


def test_adopted_servers_stay_trusted_there_and_back(tmp_path: Path) -> None:
    project = TrustedProject(tmp_path, db=STDIO, web=REMOTE)
    files = ProjectFiles(project.root, project.state)
    plan = files.plan()
    assert isinstance(plan, PlannedAdoption) and len(plan.adoption.moved) == 2
    assert files.adopt(plan) is None
    assert project.verdicts() == {"stdio:db": "trusted", "remote:web": "trusted"}
    undo = files.plan_undo()
    assert isinstance(undo, PlannedUndo) and files.undo(undo) is None
    assert project.verdicts() == {"stdio:db": "trusted", "remote:web": "trusted"}


MOVED = """
[[mcp.stdio_servers]]
namespace = "db"
command = ["node", "./server.js", "--port", "1"]
env = {URL = "${DATABASE_URL}"}
"""


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("", "", "trusted"),
        ('"1"]', '"2"]', "changed"),
        ('"node"', '"nodejs"', "changed"),
        ("${DATABASE_URL}", "${OTHER_URL}", "changed"),
        ("env = {", 'env = {MORE = "/x", ', "changed"),
        ("env =", 'cwd = "src"\nenv =', "changed"),
        ("env =", "timeout_s = 5\nenv =", "changed"),
        ('namespace = "db"', 'namespace = "other"', "never"),
    ],
)
def test_a_moved_entry_that_says_something_else_needs_trust(
    tmp_path: Path, old: str, new: str, verdict: str
) -> None:
    project = TrustedProject(tmp_path, db=STDIO)
    project.write()
    (project.root / "src").mkdir()
    project.write_toml(MOVED.replace(old, new, 1) if old else MOVED)
    assert list(project.verdicts().values()) == [verdict]


def test_a_moved_entry_whose_files_changed_needs_trust(tmp_path: Path) -> None:
    project = TrustedProject(tmp_path, db=STDIO)
    project.write()
    project.write_toml(MOVED)
    (project.root / "server.js").write_text("steal()\n")
    assert project.verdicts() == {"stdio:db": "changed"}


def test_a_moved_entry_of_another_folder_at_this_path_needs_trust(tmp_path: Path) -> None:
    project = TrustedProject(tmp_path, db=STDIO)
    project.root.rename(tmp_path / "elsewhere")
    project.root.mkdir()
    (project.root / "server.js").write_text("serve()\n")
    project.write_toml(MOVED)
    assert project.verdicts() == {"stdio:db": "changed"}


def test_what_one_file_reads_differently_needs_trust_after_a_move(tmp_path: Path) -> None:
    """`$NAME` and `{env:NAME}` are plain text in `.mcp.json`."""
    for number, text in enumerate(("$SECRET", "{env:SECRET}", "${env:SECRET}", "~/x")):
        folder = tmp_path / str(number)
        folder.mkdir()
        project = TrustedProject(folder, db={"command": "node", "args": [text]})
        project.write()
        project.write_toml(f'[[mcp.stdio_servers]]\nnamespace = "db"\ncommand = ["node", "{text}"]\n')
        assert project.verdicts() == {"stdio:db": "changed"}, text


@pytest.mark.parametrize(
    ("entry", "files"),
    [
        ({"command": "a", "args": ["b"]}, {".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json", WORKSPACE_FILE}),
        ({"command": "a", "env": {"A": "${A}"}}, {".mcp.json", WORKSPACE_FILE}),
        ({"command": "a", "env": {"A": "${A:-$B}"}}, set()),
        ({"command": "a", "sandboxEnabled": True}, set()),
        ({"command": "a", "type": "stdio", "transport": "stdio"}, set()),
        ({"url": "a", "type": "websocket"}, set()),
        ({"namespace": "", "command": ["a"]}, set()),
    ],
)  # fmt: skip
def test_an_entry_may_move_between_files_that_read_it_alike(entry: Any, files: set[str]) -> None:
    assert files_of_same_meaning(entry) == files
