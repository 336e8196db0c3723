"""Tests of `lmtb adopt`: what it shows, asks, writes, refuses, and names as the next step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.client_setup.adoption.decision import WORKSPACE_FILE
from lm_tools_bridge.client_setup.cli.adopt import MASK, masked, secrets_in, secrets_of

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
    result = run("adopt", "--yes", "--cwd", str(project))
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
    assert run("adopt", "--yes", "--cwd", str(project / "src")).exit_code == 0
    assert (project / WORKSPACE_FILE).exists()


def test_undo_restores_the_files_after_showing_the_change(run: Any, project: Path) -> None:
    before = contents(project)
    run("adopt", "--yes", "--cwd", str(project))
    result = run("adopt", "--undo", "--yes", "--cwd", str(project))
    assert result.exit_code == 0
    assert '+    "everything": {' in result.stdout.splitlines()
    assert contents(project) == before


def test_undo_puts_servers_back_into_a_file_that_others_replaced(run: Any, project: Path) -> None:
    run("adopt", "--yes", "--cwd", str(project))
    (project / ".mcp.json").write_text('{"mine": 1}\n')
    result = run("adopt", "--undo", "--yes", "--cwd", str(project))
    assert result.exit_code == 0
    assert "was changed since; what others wrote stays" in result.stdout
    servers = {name: entry for name, entry in SERVERS.items() if name != "odd"}
    assert json.loads((project / ".mcp.json").read_text()) == {"mine": 1, "mcpServers": servers}


def test_undo_shows_which_files_differ_and_writes_nothing(run: Any, project: Path) -> None:
    run("adopt", "--yes", "--cwd", str(project))
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
    result = run("adopt", *options, "--cwd", str(project))
    assert result.exit_code == 0
    assert '+namespace = "everything"' in result.stdout
    assert contents(project) == before


def test_without_a_terminal_it_needs_yes(run: Any, project: Path) -> None:
    before = contents(project)
    result = run("adopt", "--cwd", str(project))
    assert result.exit_code == 1
    assert "--yes" in result.stderr
    assert contents(project) == before


def test_a_name_that_no_file_has_is_refused(run: Any, project: Path) -> None:
    before = contents(project)
    result = run("adopt", "everything", "nobody", "--yes", "--cwd", str(project))
    assert result.exit_code == 1
    assert "nobody" in result.stderr
    assert contents(project) == before


def test_a_project_without_such_servers_has_nothing_to_move(run: Any, project: Path) -> None:
    (project / ".mcp.json").unlink()
    result = run("adopt", "--cwd", str(project))
    assert result.exit_code == 0
    assert result.stdout == "nothing to move: clients start no servers here\n"


def test_a_file_that_is_not_valid_is_named_with_its_line(run: Any, project: Path) -> None:
    (project / ".mcp.json").write_text('{\n"mcpServers": {,}}')
    result = run("adopt", "--yes", "--cwd", str(project))
    assert result.exit_code == 1
    assert ".mcp.json, line 2" in result.stderr
    assert not (project / WORKSPACE_FILE).exists()


def test_json_says_what_moved_what_stays_and_how_files_change(run: Any, project: Path) -> None:
    found = json.loads(run("adopt", "--yes", "--json", "--cwd", str(project)).stdout)
    assert (found["ok"], found["result"]) == (True, "done")
    assert found["moved"] == [{"name": "everything", "file": ".mcp.json", "project": None}]
    assert [one["name"] for one in found["left"]] == ["odd"]
    assert [Path(one["file"]).name for one in found["files"]] == ["workspace.toml", ".mcp.json"]
    assert '+namespace = "everything"' in found["files"][0]["diff"]
    undone = json.loads(run("adopt", "--undo", "--yes", "--json", "--cwd", str(project)).stdout)
    assert (undone["result"], len(undone["files"])) == ("done", 2)


def test_json_of_a_refusal_is_one_document(run: Any, project: Path) -> None:
    run("adopt", "--yes", "--cwd", str(project))
    (project / ".mcp.json").write_text('{"mcpServers": {"everything": {"command": "mine"}}}')
    found = json.loads(run("adopt", "--undo", "--json", "--cwd", str(project)).stdout)
    assert (found["ok"], found["error"]["reason"]) == (False, "changed_since")


def test_values_that_may_be_secret_are_masked_however_they_are_written() -> None:
    secret = 'p"ä\\ss'
    entry = {
        "command": "npx",
        "args": [
            "-y",
            "pkg",
            "--api-key",
            "key-in-args",
            "--token=key-after-equals",
            "DB_PASSWORD=pass-word",
        ],
        "env": {"T": secret, "SHORT": "ab"},
        "url": "https://user-name:pass-phrase@a.example/mcp?apiKey=in-the-query",
        "headers": {"Authorization": "Bearer the-bearer"},
        "primaryApiKey": "of-the-client",
    }
    secrets = secrets_in({"mcpServers": {"a": entry}})
    for shown in (json.dumps(entry), json.dumps(entry, ensure_ascii=False)):
        text = masked(shown, secrets)
        for hidden in (
            "key-in-args", "key-after-equals", "pass-word", "ä", "\\u00e4", '"ab"', "user-name", "pass-phrase",
            "in-the-query", "the-bearer", "of-the-client",
        ):  # fmt: skip
            assert hidden not in text, hidden
        assert '"npx"' in text and '"pkg"' in text and MASK in text


def test_placeholders_and_ordinary_words_stay() -> None:
    entry = {
        "command": "x",
        "args": ["--verbose", "y"],
        "tools": [],
        "env": {"A": "${TOKEN}", "B": "$B", "C": "{env:C}"},
    }
    assert secrets_in(entry) == frozenset()


def test_files_that_cannot_be_read_have_no_secrets() -> None:
    assert secrets_of([("a.json", b"{"), ("b.toml", b"\xff"), ("c.json", None)]) == frozenset()
    assert "secret" in secrets_of([("b.toml", b'[mcp_servers.a.env]\nT = "secret"\n')])
