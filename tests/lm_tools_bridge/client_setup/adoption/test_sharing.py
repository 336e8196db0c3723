"""Tests of which projects are found, and how their servers come to run from here only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lm_tools_bridge.client_setup.adoption.adoption_files import ProjectFiles
from lm_tools_bridge.client_setup.adoption.sharing import Share, find_projects, plan_for_project
from lm_tools_bridge.client_setup.clients import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    home = tmp_path / "home"
    home.mkdir()
    return Machine({}, home, "linux")


def project(folder: Path, *, is_repository: bool = True) -> Path:
    folder.mkdir(parents=True)
    if is_repository:
        (folder / ".git").mkdir()
    (folder / ".mcp.json").write_text('{"mcpServers": {"db": {"command": "db"}}}')
    return folder


def test_projects_are_those_that_are_known_and_those_in_which_clients_worked(
    machine: Machine, tmp_path: Path
) -> None:
    known, claudes, codexs = (project(tmp_path / name) for name in ("known", "claude", "codex"))
    below, worktree = project(tmp_path / "below", is_repository=False), tmp_path / "worktree"
    project(worktree, is_repository=False)
    (worktree / ".git").write_text("gitdir: elsewhere")
    empty = tmp_path / "empty"
    (empty / ".git").mkdir(parents=True)
    folders = [claudes, below, worktree, empty, machine.home, tmp_path / "gone", Path("relative")]
    (machine.home / ".claude.json").write_text(json.dumps({"projects": {str(name): {} for name in folders}}))
    (machine.home / ".codex").mkdir()
    (machine.home / ".codex" / "config.toml").write_text(f'[projects."{codexs}"]\ntrust_level = "trusted"\n')
    assert find_projects(machine, [known, claudes]) == [known, claudes, codexs]


@pytest.mark.parametrize("content", ["{", "[]", '{"projects": []}', '{"projects": {"/a": 1}}'])
def test_a_file_that_cannot_be_understood_names_no_project(machine: Machine, content: str) -> None:
    (machine.home / ".claude.json").write_text(content)
    assert find_projects(machine, []) == []


@pytest.mark.parametrize(("is_repository", "moves"), [(True, False), (False, True)])
def test_files_that_colleagues_may_have_stay(
    machine: Machine, tmp_path: Path, is_repository: bool, moves: bool
) -> None:
    files = ProjectFiles(project(tmp_path / "shop", is_repository=is_repository), tmp_path / "state")
    share = plan_for_project(files, machine)
    assert isinstance(share, Share) and share.moves == moves
    changed = {file.state.path.name for file in share.planned.files}
    assert (".mcp.json" in changed) == moves


def test_what_the_user_refused_in_claude_code_stays_refused(machine: Machine, tmp_path: Path) -> None:
    files = ProjectFiles(project(tmp_path / "shop"), tmp_path / "state")
    (machine.home / ".claude").mkdir()
    (machine.home / ".claude" / "settings.json").write_text('{"disabledMcpjsonServers": ["db"]}')
    share = plan_for_project(files, machine)
    assert isinstance(share, Share) and not share.planned.files
