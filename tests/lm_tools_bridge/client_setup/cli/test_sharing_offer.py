"""Tests of what `lmtb client add` offers for servers that clients have already: one plan, one question, one undo."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from manager import exit_codes
from manager.configuration.paths import Paths

PORT = "47100"
MEMORY = {"command": "memory", "env": {"TOKEN": "s3cret-of-memory"}}


@pytest.fixture
def claude(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Claude Code's own file, with a server of the user and the folders of two projects."""
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LMTB_HTTP_PORT", PORT)
    home = Path(environ["HOME"])
    shop, site = home / "src" / "shop", home / "src" / "site"
    for root in (shop, site):
        (root / ".git").mkdir(parents=True)
    (shop / ".mcp.json").write_text('{"mcpServers": {"db": {"command": "db"}}}')
    (site / ".vscode").mkdir()
    (site / ".vscode" / "mcp.json").write_text('{"servers": {"tests": {"command": "t"}}}')
    file = home / ".claude.json"
    value = {"mcpServers": {"memory": MEMORY}, "projects": {str(shop): {}, str(site): {}}, "numStartups": 1}
    file.write_text(json.dumps(value, indent=2))
    return file


def settings(claude: Path) -> Path:
    return claude.parent / "src" / "shop" / ".claude" / "settings.local.json"


def add(run: Any, *words: str) -> Any:
    return run("client", "add", "claude-code", "--no-service", *words)


def test_one_plan_says_what_runs_from_here_what_stays_and_what_colleagues_notice(
    run: Any, claude: Path
) -> None:
    result = add(run, "--dry-run")
    assert result.exit_code == exit_codes.OK, result.output
    for line in (
        '  your own "memory": move to ',
        '  ~/src/shop: Claude Code no longer starts "db"; .mcp.json stays as it is',
        "No file of a project changes for colleagues.",
        "Claude Code then names their tools mcp__lm-tools-bridge__",
    ):
        assert line in result.stdout, line
    assert "s3cret-of-memory" not in result.output
    assert ".vscode" not in result.stdout
    both = run("client", "add", "claude-code", "vscode", "--no-service", "--dry-run").stdout
    assert '  "tests" in ~/src/site/.vscode/mcp.json: VS Code cannot be told not to start it' in both
    assert not settings(claude).exists() and "memory" in json.loads(claude.read_text())["mcpServers"]


def test_nothing_changes_without_an_answer(run: Any, claude: Path) -> None:
    before = claude.read_bytes()
    result = add(run)
    assert result.exit_code == exit_codes.FAILED and "--yes" in result.stderr
    assert "your own" in result.stdout
    assert claude.read_bytes() == before and not settings(claude).exists()


def test_yes_does_all_of_it_and_each_part_is_taken_back_by_entry(
    run: Any, claude: Path, paths: Paths
) -> None:
    result = add(run, "--yes")
    assert result.exit_code == exit_codes.OK, result.output
    value = json.loads(claude.read_text())
    assert list(value["mcpServers"]) == ["lm-tools-bridge"]
    assert "s3cret-of-memory" in (paths.config_dir / "workspace.toml").read_text()
    assert json.loads(settings(claude).read_text()) == {"disabledMcpjsonServers": ["db"]}
    assert f"lmtb trust {claude.parent}/src/shop" in result.stdout
    claude.write_text(json.dumps({**value, "numStartups": 2}))
    assert run("adopt", "--undo", "--all", "--yes").exit_code == exit_codes.OK
    assert run("adopt", "--undo", "--user", "--yes").exit_code == exit_codes.OK
    assert run("client", "remove", "--undo", "--yes", "claude-code").exit_code == exit_codes.OK
    back = json.loads(claude.read_text())
    assert (back["mcpServers"], back["numStartups"]) == ({"memory": MEMORY}, 2)
    assert not settings(claude).exists()


def test_servers_of_clients_that_are_not_added_stay(run: Any, claude: Path) -> None:
    result = run("client", "add", "cursor", "--no-service", "--yes", "--json")
    assert json.loads(result.stdout)["servers"] == []
    assert "memory" in json.loads(claude.read_text())["mcpServers"] and not settings(claude).exists()


def test_without_servers_only_the_entry_is_written(run: Any, claude: Path) -> None:
    assert "servers" not in json.loads(add(run, "--no-servers", "--yes", "--json").stdout)
    assert set(json.loads(claude.read_text())["mcpServers"]) == {"memory", "lm-tools-bridge"}


def test_a_second_time_there_is_nothing_to_do(run: Any, claude: Path) -> None:
    add(run, "--yes")
    result = add(run)
    assert result.exit_code == exit_codes.OK and "already configured" in result.stdout


@pytest.mark.parametrize(
    ("letter", "is_connected", "is_shared"),
    [(b"y\n", True, True), (b"c\n", True, False), (b"n\n", False, False), (b"\n", False, False)],
)
def test_one_question_decides_about_all(
    claude: Path, letter: bytes, is_connected: bool, is_shared: bool
) -> None:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-I", "-m", "manager", "client", "add", "claude-code", "--no-service"]
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while b"n = nothing" not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, letter)
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:
            pass  # the other end is closed
        os.close(ours)
        assert process.wait(20) == exit_codes.OK, shown.decode()
    assert shown.count(b"(y = ") == 1
    servers = json.loads(claude.read_text())["mcpServers"]
    assert ("lm-tools-bridge" in servers, "memory" not in servers) == (is_connected, is_shared)
    assert settings(claude).exists() == is_shared
