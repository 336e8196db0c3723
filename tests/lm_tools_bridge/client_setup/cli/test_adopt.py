"""Tests of `lmtb adopt`: what it shows, asks, writes, refuses, and names as the next step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.client_setup.adoption.decision import WORKSPACE_FILE

SERVERS = {
    "everything": {"command": "npx", "args": ["-y", "everything"]},
    "odd": {"command": "x", "note": "n"},
}


@pytest.fixture
def project(environ: dict[str, str], tmp_path: Path) -> Path:
    root = tmp_path / "my project"
    (root / ".git").mkdir(parents=True)
    (root / ".mcp.json").write_text(json.dumps({"mcpServers": SERVERS}, indent=2) + "\n")
    return root


def contents(root: Path) -> dict[Path, bytes]:
    return {one: one.read_bytes() for one in root.rglob("*") if one.is_file()}


def test_adopt_shows_every_change_and_the_next_step(run: Any, project: Path) -> None:
    result = run("adopt", "--move", "--yes", "--cwd", str(project))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert '+namespace = "everything"' in lines
    assert '-    "everything": {' in lines
    assert 'stays in .mcp.json: odd: workspace.toml has nothing for its key "note"' in lines
    assert f"Next step: allow those to run that were not trusted before: lmtb trust '{project}'" in lines
    assert json.loads((project / ".mcp.json").read_text()) == {"mcpServers": {"odd": SERVERS["odd"]}}
    assert 'command = ["npx", "-y", "everything"]' in (project / WORKSPACE_FILE).read_text()


def test_a_folder_below_the_root_means_its_project(run: Any, project: Path) -> None:
    (project / "src").mkdir()
    assert run("adopt", "--move", "--yes", "--cwd", str(project / "src")).exit_code == 0
    assert (project / WORKSPACE_FILE).exists()


def test_undo_restores_the_files_after_showing_the_change(run: Any, project: Path) -> None:
    before = contents(project)
    run("adopt", "--move", "--yes", "--cwd", str(project))
    result = run("adopt", "--undo", "--yes", "--cwd", str(project))
    assert result.exit_code == 0
    assert '+    "everything": {' in result.stdout.splitlines()
    assert contents(project) == before


def test_undo_puts_servers_back_into_a_file_that_others_replaced(run: Any, project: Path) -> None:
    run("adopt", "--move", "--yes", "--cwd", str(project))
    (project / ".mcp.json").write_text('{"mine": 1}\n')
    result = run("adopt", "--undo", "--yes", "--cwd", str(project))
    assert result.exit_code == 0
    assert "was changed since; what others wrote stays" in result.stdout
    servers = {name: entry for name, entry in SERVERS.items() if name != "odd"}
    assert json.loads((project / ".mcp.json").read_text()) == {"mine": 1, "mcpServers": servers}


def test_undo_shows_which_files_differ_and_writes_nothing(run: Any, project: Path) -> None:
    run("adopt", "--move", "--yes", "--cwd", str(project))
    (project / ".mcp.json").write_text('{"mcpServers": {"everything": {"command": "mine"}}}\n')
    before = contents(project)
    result = run("adopt", "--undo", "--yes", "--cwd", str(project))
    assert result.exit_code == 1
    assert '+{"mcpServers": {"everything": {"command": "mine"}}}' in result.stdout.splitlines()
    assert "somebody else changed mcpServers.everything since" in result.stderr
    assert contents(project) == before


@pytest.mark.parametrize("options", [("--dry-run",), ("--dry-run", "--yes")])
def test_dry_run_shows_the_change_and_writes_nothing(
    run: Any, project: Path, options: tuple[str, ...]
) -> None:
    before = contents(project)
    result = run("adopt", "--move", *options, "--cwd", str(project))
    assert result.exit_code == 0
    assert '+namespace = "everything"' in result.stdout
    assert contents(project) == before


def test_without_a_terminal_it_needs_yes(run: Any, project: Path) -> None:
    before = contents(project)
    result = run("adopt", "--move", "--cwd", str(project))
    assert result.exit_code == 1
    assert "--yes" in result.stderr
    assert contents(project) == before


def test_a_name_that_no_file_has_is_refused(run: Any, project: Path) -> None:
    before = contents(project)
    result = run("adopt", "--move", "everything", "nobody", "--yes", "--cwd", str(project))
    assert result.exit_code == 1
    assert "nobody" in result.stderr
    assert contents(project) == before


def test_a_project_without_such_servers_has_nothing_to_move(run: Any, project: Path) -> None:
    (project / ".mcp.json").unlink()
    result = run("adopt", "--cwd", str(project))
    assert result.exit_code == 0
    assert result.stdout == "nothing to change: clients start no servers here\n"


def test_a_file_that_is_not_valid_is_named_with_its_line(run: Any, project: Path) -> None:
    (project / ".mcp.json").write_text('{\n"mcpServers": {,}}')
    result = run("adopt", "--move", "--yes", "--cwd", str(project))
    assert result.exit_code == 1
    assert ".mcp.json, line 2" in result.stderr
    assert not (project / WORKSPACE_FILE).exists()


def test_json_says_what_moved_what_stays_and_how_files_change(run: Any, project: Path) -> None:
    found = json.loads(run("adopt", "--move", "--yes", "--json", "--cwd", str(project)).stdout)
    assert (found["ok"], found["result"]) == (True, "done")
    assert found["moved"] == [{"name": "everything", "file": ".mcp.json", "project": None}]
    assert [one["name"] for one in found["left"]] == ["odd"]
    assert [Path(one["file"]).name for one in found["files"]] == ["workspace.toml", ".mcp.json"]
    assert '+namespace = "everything"' in found["files"][0]["diff"]
    undone = json.loads(run("adopt", "--undo", "--yes", "--json", "--cwd", str(project)).stdout)
    assert (undone["result"], len(undone["files"])) == ("done", 2)


def test_json_of_a_refusal_is_one_document(run: Any, project: Path) -> None:
    run("adopt", "--move", "--yes", "--cwd", str(project))
    (project / ".mcp.json").write_text('{"mcpServers": {"everything": {"command": "mine"}}}')
    found = json.loads(run("adopt", "--undo", "--json", "--cwd", str(project)).stdout)
    assert (found["ok"], found["error"]["reason"]) == (False, "changed_since")


def settings(root: Path) -> Path:
    return root / ".claude" / "settings.local.json"


def test_in_a_repository_the_file_stays_and_claude_code_is_told(run: Any, project: Path) -> None:
    before = (project / ".mcp.json").read_bytes()
    result = run("adopt", "--yes", "--cwd", str(project))
    assert result.exit_code == 0, result.output
    assert (project / ".mcp.json").read_bytes() == before
    assert not (project / WORKSPACE_FILE).exists()
    assert json.loads(settings(project).read_text()) == {"disabledMcpjsonServers": ["everything"]}
    assert 'Claude Code no longer starts "everything"; .mcp.json stays as it is' in result.stdout
    assert (
        f"Next step: allow those to run that were not trusted before: lmtb trust '{project}'" in result.stdout
    )
    again = run("adopt", "--cwd", str(project))
    assert (again.exit_code, again.stdout.splitlines()[-1]) == (0, "nothing to change")
    assert "everything: Claude Code does not start it, as it was told before" in again.stdout


def test_outside_of_git_servers_move(run: Any, project: Path) -> None:
    (project / ".git").rmdir()
    (project / ".lm-tools-bridge").mkdir()
    assert run("adopt", "--yes", "--cwd", str(project)).exit_code == 0
    assert (project / WORKSPACE_FILE).exists() and not settings(project).exists()


def test_a_file_of_another_client_is_named_with_what_moves_it(run: Any, project: Path) -> None:
    (project / ".vscode").mkdir()
    (project / ".vscode" / "mcp.json").write_text(json.dumps({"servers": {"tests": {"command": "t"}}}))
    result = run("adopt", "tests", "--yes", "--cwd", str(project))
    assert "VS Code cannot be told not to start it; this moves it: lmtb adopt --move" in result.stdout
    assert run("adopt", "tests", "--move", "--yes", "--cwd", str(project)).exit_code == 0
    assert 'namespace = "tests"' in (project / WORKSPACE_FILE).read_text()


def test_undo_takes_only_our_names_out_of_what_claude_code_wrote_since(run: Any, project: Path) -> None:
    settings(project).parent.mkdir()
    settings(project).write_text('{\n  "disabledMcpjsonServers": ["odd"]\n}\n')
    run("adopt", "--yes", "--cwd", str(project))
    value = json.loads(settings(project).read_text())
    assert value["disabledMcpjsonServers"] == ["odd", "everything"]
    value["disabledMcpjsonServers"].append("late")
    settings(project).write_text(json.dumps({"permissions": {"allow": ["Bash"]}, **value}))
    assert run("adopt", "--undo", "--yes", "--cwd", str(project)).exit_code == 0
    assert json.loads(settings(project).read_text()) == {
        "permissions": {"allow": ["Bash"]}, "disabledMcpjsonServers": ["odd", "late"]
    }  # fmt: skip


def test_undo_removes_a_file_and_folder_that_were_made(run: Any, project: Path) -> None:
    before = contents(project)
    run("adopt", "--yes", "--cwd", str(project))
    assert run("adopt", "--undo", "--yes", "--cwd", str(project)).exit_code == 0
    assert contents(project) == before and not settings(project).parent.exists()


def test_all_covers_the_projects_in_which_clients_worked_and_so_does_its_undo(
    run: Any, project: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    (other / ".mcp.json").write_text('{"mcpServers": {"db": {"command": "db"}}}')
    broken = tmp_path / "broken"
    (broken / ".git").mkdir(parents=True)
    (broken / ".mcp.json").write_text("{,}")
    folders = {str(root): {} for root in (project, other, broken, tmp_path / "gone")}
    (Path(environ["HOME"]) / ".claude.json").write_text(json.dumps({"projects": folders}))
    result = run("adopt", "--all", "--yes")
    assert result.exit_code == 1 and f"{broken}: .mcp.json, line 1" in result.stderr
    for root, name in ((project, "everything"), (other, "db")):
        assert json.loads(settings(root).read_text()) == {"disabledMcpjsonServers": [name]}
    assert f"lmtb trust '{project}'; lmtb trust {other}" in result.stdout
    undone = json.loads(run("adopt", "--undo", "--all", "--yes", "--json").stdout)
    assert undone["result"] == "done" and len(undone["files"]) == 2
    assert not settings(project).exists() and not settings(other).exists()


@pytest.mark.parametrize(
    "words",
    [("--all", "everything"), ("--undo", "--move"), ("--user", "--keep"), ("--all", "--user")],
)
def test_options_that_exclude_each_other_are_refused(run: Any, project: Path, words: tuple[str, ...]) -> None:
    before = contents(project)
    assert run("adopt", *words).exit_code == 2
    assert contents(project) == before


def test_all_covers_the_projects_that_the_manager_knows(run: Any, project: Path, control: Any) -> None:
    known = [{"id": "p-1", "root": str(project)}, {"id": "far-1", "root": "build:/src/far"}, {"id": "odd-1"}]
    control.say("GET /mcp/status", {"ok": True, "workspaceDetails": known})
    found = json.loads(run("adopt", "--all", "--dry-run", "--json").stdout)
    assert [row["folder"] for row in found["projects"]] == [str(project)]
    assert (found["result"], found["projects"][0]["way"]) == ("planned", "keep")
    assert [row["name"] for row in found["projects"][0]["moved"]] == ["everything"]
    assert not settings(project).exists()
