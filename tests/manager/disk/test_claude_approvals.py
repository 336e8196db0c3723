"""What a user answered to Claude Code about the servers of `.mcp.json`, as it writes that down."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from manager.disk.claude_approvals import FILE, MAX_BYTES, Approvals, read_approvals

ASKS, ASKS_NOBODY = "claude-code/2.1.332 (cli)", "claude-code/2.1.332 (sdk-cli)"


class Files:
    """A home folder and a project."""

    def __init__(self, folder: Path) -> None:
        self.home, self.root = folder / "home", folder / "proj"
        self.environ: dict[str, str] = {}
        for path in (self.home, self.root):
            path.mkdir()

    def write(self, path: Path, content: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))

    def read(self) -> Approvals:
        return read_approvals(self.environ, self.home, self.root)

    def places(self) -> dict[str, Path]:
        return {
            "user": self.home / ".claude/settings.json",
            "project": self.root / ".claude/settings.json",
            "local": self.root / ".claude/settings.local.json",
        }

    def started(self, user_agent: str = ASKS) -> list[str]:
        """Which of the servers a and b it starts."""
        own = self.read().own_servers(user_agent)
        return [name for name in "ab" if own.starts(FILE, name)]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_without_an_answer_only_a_run_that_asks_nobody_starts_servers(files: Files) -> None:
    assert files.started() == []
    assert files.started("") == []
    assert files.started(ASKS_NOBODY) == ["a", "b"]


@pytest.mark.parametrize("place", ["user", "project", "local"])
def test_answers_count_in_every_file_of_settings(files: Files, place: str) -> None:
    file = files.places()[place]
    files.write(file, {"enabledMcpjsonServers": ["a"], "model": {"other": 1}})
    assert files.started() == ["a"]
    files.write(file, {"enableAllProjectMcpServers": True})
    assert files.started() == ["a", "b"]
    files.write(file, {"enableAllProjectMcpServers": True, "disabledMcpjsonServers": ["a"]})
    assert files.started() == ["b"]
    assert files.started(ASKS_NOBODY) == ["b"]


@pytest.mark.parametrize("member", ["disabledMcpjsonServers", "disabledMcpServers"])
def test_the_section_of_a_project_in_the_users_state_counts_as_well(files: Files, member: str) -> None:
    section = {"enabledMcpjsonServers": ["a", "b"], member: ["b"]}
    files.write(files.home / ".claude.json", {"projects": {str(files.root): section, "/other": 7}})
    assert files.started() == ["a"]


def test_a_refusal_counts_whichever_file_has_it(files: Files) -> None:
    files.write(files.places()["user"], {"disabledMcpjsonServers": ["a"]})
    files.write(files.places()["local"], {"enabledMcpjsonServers": ["a", "b"]})
    assert files.started() == ["b"]


def test_another_folder_of_claude_code_is_used(files: Files) -> None:
    files.environ["CLAUDE_CONFIG_DIR"] = str(files.home / "elsewhere")
    files.write(files.home / "elsewhere/settings.json", {"enabledMcpjsonServers": ["a"]})
    files.write(
        files.home / "elsewhere/.claude.json",
        {"projects": {str(files.root): {"enabledMcpjsonServers": ["b"]}}},
    )
    files.write(files.places()["user"], {"disabledMcpjsonServers": ["a"]})
    assert files.started() == ["a", "b"]


def test_names_are_compared_as_namespaces(files: Files) -> None:
    files.write(files.places()["local"], {"enabledMcpjsonServers": ["my server"]})
    assert files.read().allowed == {"my_server"}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"enabledMcpjsonServers": 7}', b'{"projects": []}', b"\xff", b"x" * 99]
)
def test_a_file_that_cannot_be_understood_says_nothing(files: Files, content: bytes) -> None:
    for file in (files.places()["local"], files.home / ".claude.json"):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
    files.write(files.places()["project"], {"enabledMcpjsonServers": ["b"]})
    assert files.started() == ["b"]


def test_a_pipe_a_folder_and_a_huge_file_say_nothing(files: Files) -> None:
    folder = files.root / ".claude"
    folder.mkdir()
    os.mkfifo(folder / "settings.json")
    (folder / "settings.local.json").mkdir()
    with (files.home / ".claude.json").open("wb") as huge:
        huge.truncate(MAX_BYTES + 1)
    assert files.read() == Approvals()
