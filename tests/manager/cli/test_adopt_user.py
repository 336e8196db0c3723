"""Tests of `lmtb adopt --user`: no secret is shown, servers keep them, and the next step is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from manager.configuration.paths import Paths

SECRET, OTHER = "s3cret-of-docs", "s3cret-of-odd"


@pytest.fixture
def claude(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    file = Path(environ["HOME"]) / ".claude.json"
    servers = {
        "docs": {"command": "docs", "env": {"TOKEN": SECRET}},
        "odd": {"command": "odd", "note": "n", "env": {"TOKEN": OTHER}},
    }
    file.write_text(json.dumps({"userID": "u", "mcpServers": servers}, indent=2))
    return file


def test_servers_move_with_their_secrets_which_nobody_sees(run: Any, claude: Path, paths: Paths) -> None:
    result = run("adopt", "--user", "--yes")
    assert result.exit_code == 0, result.output
    assert 'namespace = "docs"' in result.stdout and "stays in ~/.claude.json: odd: " in result.stdout
    assert "close these clients first" in result.stdout
    assert "lmtb adopt --undo --user" in result.stdout
    assert "lmtb client add claude-code; then restart Claude Code" in result.stdout
    assert SECRET not in result.output and OTHER not in result.output
    assert SECRET in (paths.config_dir / "workspace.toml").read_text()
    assert OTHER in claude.read_text() and SECRET not in claude.read_text()


def test_undo_restores_every_byte_and_shows_no_secret(run: Any, claude: Path, paths: Paths) -> None:
    before = claude.read_bytes()
    run("adopt", "--user", "--yes")
    result = run("adopt", "--user", "--undo", "--yes")
    assert result.exit_code == 0
    assert '+    "docs": {' in result.stdout and SECRET not in result.output
    assert claude.read_bytes() == before
    assert not (paths.config_dir / "workspace.toml").exists()


def test_a_change_by_others_prevents_undo_and_is_shown_without_secrets(run: Any, claude: Path) -> None:
    run("adopt", "--user", "--yes")
    servers = {"docs": {"command": "mine", "env": {"TOKEN": "s3cret-that-is-new"}}}
    claude.write_text(json.dumps({"mcpServers": servers}, indent=2))
    result = run("adopt", "--user", "--undo", "--yes")
    assert result.exit_code == 1
    assert "somebody else changed mcpServers.docs since" in result.stderr
    for secret in (SECRET, OTHER, "s3cret-that-is-new"):
        assert secret not in result.output


def test_undo_keeps_what_others_changed_and_shows_no_secrets(run: Any, claude: Path) -> None:
    before = json.loads(claude.read_text())
    run("adopt", "--user", "--yes")
    claude.write_text(claude.read_text().replace(OTHER, "s3cret-that-is-new"))
    result = run("adopt", "--user", "--undo", "--yes")
    assert result.exit_code == 0
    assert json.dumps(before).replace(OTHER, "s3cret-that-is-new") == json.dumps(
        json.loads(claude.read_text())
    )
    for secret in (SECRET, OTHER, "s3cret-that-is-new"):
        assert secret not in result.output


def test_files_of_one_line_are_not_shown(run: Any, claude: Path) -> None:
    value = json.loads(claude.read_text()) | {"history": ["private words " * 40]}
    claude.write_text(json.dumps(value))
    found = json.loads(run("adopt", "--user", "--dry-run", "--json").stdout)
    shown = json.dumps(found)
    assert "private words" not in shown and SECRET not in shown
    assert "characters, which is not shown" in shown
    assert [one["name"] for one in found["moved"]] == ["docs"]


def test_nothing_to_move_is_said_without_our_own_entry(run: Any, claude: Path) -> None:
    ours = {"type": "http", "url": "http://127.0.0.1:47100/mcp"}
    claude.write_text(json.dumps({"mcpServers": {"lm-tools-bridge": ours}}))
    result = run("adopt", "--user")
    assert result.stdout == "nothing to change: clients start no servers of your own files\n"


def test_user_and_cwd_exclude_each_other(run: Any, claude: Path, tmp_path: Path) -> None:
    assert run("adopt", "--user", "--cwd", str(tmp_path)).exit_code == 2
