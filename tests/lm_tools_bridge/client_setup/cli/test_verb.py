"""Tests of `lmtb client`: what it shows, asks, writes and refuses."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.client_setup.clients import CLIENTS
from manager import exit_codes
from manager.configuration.paths import Paths

PORT = "48123"
MOVES = (
    "XDG_CONFIG_HOME",
    "CODEX_HOME",
    "CLAUDE_CONFIG_DIR",
    "GEMINI_CLI_HOME",
    "COPILOT_HOME",
    "APPDATA",
    "NO_COLOR",
)


@pytest.fixture
def home(environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a user without clients, whose manager is configured to have a port of its own."""
    for name in MOVES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("LMTB_HTTP_PORT", PORT)
    return Path(environ["HOME"])


def entry(file: Path) -> Any:
    return json.loads(file.read_text())["mcpServers"]["lm-tools-bridge"]


def test_list_shows_every_client_within_80_columns(run: Any, home: Path) -> None:
    (home / ".cursor").mkdir()
    result = run("client", "list")
    assert result.exit_code == exit_codes.OK
    lines = result.stdout.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines[1 : len(CLIENTS) + 1]}
    assert rows.keys() == {client.id for client in CLIENTS}
    assert rows["cursor"] == ["yes", "no", "~/.cursor/mcp.json"]
    assert rows["codex"] == ["no", "no", "~/.codex/config.toml"]
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in result.stdout


def test_list_says_which_are_configured_outdated_foreign_and_broken(run: Any, home: Path) -> None:
    run("client", "add", "--yes", "cursor")
    run("client", "add", "--yes", "--port", "48999", "windsurf")
    (home / ".claude.json").write_text('{"mcpServers": {"lm-tools-bridge": {"url": "https://example.com"}}}')
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text("a = 1\nb =\n")
    found = json.loads(run("client", "list", "--json").stdout)
    rows = {row["client"]: row for row in found["clients"]}
    expected = {
        "cursor": "yes",
        "windsurf": "outdated",
        "claude-code": "other",
        "codex": "unknown",
        "zed": "no",
    }
    assert {name: rows[name]["configured"] for name in expected} == expected
    assert rows["codex"]["problem"]["line"] == 2
    assert found["address"] == f"http://127.0.0.1:{PORT}/mcp"
    assert "config.toml, line 2" in run("client", "list").stdout


def test_add_shows_the_change_writes_it_and_says_what_is_next(run: Any, home: Path) -> None:
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{\n  "mcpServers": {}\n}\n')
    result = run("client", "add", "--yes", "cursor")
    assert result.exit_code == exit_codes.OK
    lines = result.stdout.splitlines()
    assert lines[:2] == ["--- ~/.cursor/mcp.json", "+++ ~/.cursor/mcp.json"]
    assert '-  "mcpServers": {}' in lines
    assert f'+      "url": "http://127.0.0.1:{PORT}/mcp"' in lines
    for said in (
        "Cursor: added to ~/.cursor/mcp.json",
        "lmtb client remove --undo cursor",
        "lmtb up",
        "lmtb doctor",
    ):
        assert said in result.stdout
    assert entry(file) == {"url": f"http://127.0.0.1:{PORT}/mcp"}


def test_variables_of_this_shell_that_a_program_may_not_get_are_named(run: Any, home: Path) -> None:
    said = run("client", "add", "--yes", "claude-desktop").stdout
    assert "may not pass on LMTB_CONFIG_DIR, LMTB_STATE_DIR, LMTB_RUNTIME_DIR" in said
    assert "may not pass on" not in run("client", "add", "--yes", "cursor").stdout


def test_install_is_another_name_for_add(run: Any, home: Path) -> None:
    assert run("client", "install", "--yes", "cursor").exit_code == exit_codes.OK
    assert entry(home / ".cursor" / "mcp.json")
    assert "  install " not in run("client", "--help").stdout


def test_adding_twice_changes_nothing(run: Any, home: Path) -> None:
    run("client", "add", "--yes", "cursor")
    before = (home / ".cursor" / "mcp.json").stat()
    result = run("client", "add", "cursor")
    assert (result.exit_code, result.stdout) == (exit_codes.OK, "Cursor: already configured\n")
    assert (home / ".cursor" / "mcp.json").stat() == before


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_without_a_terminal_nothing_is_written_unless_told(run: Any, home: Path, options: list[str]) -> None:
    result = run("client", "add", "cursor", *options, input="y\n")
    assert result.exit_code == exit_codes.FAILED
    assert "--yes" in result.stderr
    assert not (home / ".cursor").exists()
    if options:
        assert json.loads(result.stdout)["error"]["reason"] == "not_confirmed"


def test_a_dry_run_shows_the_change_and_writes_nothing(run: Any, home: Path, paths: Paths) -> None:
    result = run("client", "add", "--dry-run", "codex")
    assert result.exit_code == exit_codes.OK
    assert "+[mcp_servers.lm-tools-bridge]" in result.stdout
    assert list(home.iterdir()) == []
    assert not (paths.state_dir / "client-files").exists()


def test_the_hook_is_shown_and_asked_for_by_itself_and_goes_with_the_client(run: Any, home: Path) -> None:
    settings = home / ".claude/settings.json"
    shown = run("client", "add", "--dry-run", "claude-code")
    assert "hook post-edit" in shown.stdout
    assert not settings.exists()
    result = run("client", "add", "--yes", "--no-hook", "claude-code")
    assert result.exit_code == exit_codes.OK
    assert not settings.exists()
    run("client", "add", "--yes", "claude-code")
    assert "hook post-edit" in settings.read_text()
    assert run("client", "remove", "--yes", "--undo", "claude-code").exit_code == exit_codes.OK
    assert not settings.exists()
    run("client", "add", "--yes", "claude-code")
    assert run("client", "remove", "--yes", "claude-code").exit_code == exit_codes.OK
    assert json.loads(settings.read_text()) == {}


def test_no_hook_is_added_to_a_client_whose_own_file_is_refused(run: Any, home: Path) -> None:
    (home / ".claude.json").write_text("[]")
    assert run("client", "add", "--yes", "claude-code").exit_code == exit_codes.FAILED
    assert not (home / ".claude/settings.json").exists()


def test_json_tells_programs_what_was_done(run: Any, home: Path) -> None:
    (home / ".claude.json").write_text("[]")
    result = run("client", "add", "--yes", "--json", "cursor", "claude-code")
    assert result.exit_code == exit_codes.FAILED
    value = json.loads(result.stdout)
    done, refused = value["clients"]
    assert value["ok"] is False
    assert (done["client"], done["result"], done["file"]) == (
        "cursor",
        "done",
        str(home / ".cursor" / "mcp.json"),
    )
    assert "+{" in done["diff"]
    assert (refused["result"], refused["problem"]["reason"]) == ("refused", "not_an_object")


def test_all_adds_to_every_installed_client_even_if_one_refuses(run: Any, home: Path) -> None:
    for folder in (".cursor", ".codex", ".gemini"):
        (home / folder).mkdir()
    (home / ".cursor" / "mcp.json").write_text("{")
    result = run("client", "add", "--all", "--yes")
    assert result.exit_code == exit_codes.FAILED
    assert "mcp.json, line 1" in result.stderr
    assert "Next step:" in result.stderr
    assert entry(home / ".gemini" / "settings.json")
    assert tomllib.loads((home / ".codex" / "config.toml").read_text())["mcp_servers"]
    assert (home / ".cursor" / "mcp.json").read_text() == "{"
    assert not (home / ".claude.json").exists()


def test_all_without_any_client_is_a_failure(run: Any, home: Path) -> None:
    result = run("client", "add", "--all", "--yes")
    assert result.exit_code == exit_codes.FAILED
    assert "lmtb client show other" in result.stderr


@pytest.mark.parametrize(
    "arguments", [["add"], ["add", "--all", "cursor"], ["remove"], ["add", "nobody"], ["show", "nobody"]]
)
def test_wrong_usage_is_exit_code_2(run: Any, home: Path, arguments: list[str]) -> None:
    assert run("client", *arguments).exit_code == exit_codes.USAGE


def test_an_unknown_client_is_answered_with_the_known_ones(run: Any, home: Path) -> None:
    said = run("client", "add", "--yes", "cursor", "nobody").stderr
    assert all(client.id in said for client in CLIENTS)
    assert not (home / ".cursor").exists()


def test_an_entry_that_is_not_ours_needs_force(run: Any, home: Path) -> None:
    file = home / ".claude.json"
    file.write_text('{"mcpServers": {"lm-tools-bridge": {"url": "https://example.com"}}}')
    result = run("client", "add", "--yes", "claude-code")
    assert result.exit_code == exit_codes.FAILED
    assert "--force" in result.stderr
    assert run("client", "add", "--yes", "--force", "claude-code").exit_code == exit_codes.OK
    assert entry(file)["url"] == f"http://127.0.0.1:{PORT}/mcp?cwd=${{PWD}}"


def test_remove_takes_the_entry_out_once(run: Any, home: Path) -> None:
    run("client", "add", "--yes", "cursor")
    assert "removed from" in run("client", "remove", "--yes", "cursor").stdout
    assert json.loads((home / ".cursor" / "mcp.json").read_text()) == {"mcpServers": {}}
    again = run("client", "remove", "--yes", "cursor")
    assert (again.exit_code, again.stdout) == (exit_codes.OK, "Cursor: not configured\n")


def test_undo_restores_the_file_byte_for_byte(run: Any, home: Path) -> None:
    file = home / ".gemini" / "settings.json"
    file.parent.mkdir()
    file.write_bytes(before := b'\xef\xbb\xbf{ "a":1, // x\r\n"b" : [ ]}')
    run("client", "add", "--yes", "gemini-cli")
    assert file.read_bytes() != before
    assert "restored" in run("client", "remove", "--undo", "--yes", "gemini-cli").stdout
    assert file.read_bytes() == before
    assert run("client", "remove", "--undo", "--yes", "gemini-cli").exit_code == exit_codes.FAILED


def test_undo_deletes_a_file_that_was_made(run: Any, home: Path) -> None:
    run("client", "add", "--yes", "cursor")
    assert "deleted the new file" in run("client", "remove", "--undo", "--yes", "cursor").stdout
    assert not (home / ".cursor").exists()


def test_undo_keeps_what_others_wrote_since_and_says_so(run: Any, home: Path) -> None:
    file = home / ".cursor" / "mcp.json"
    run("client", "add", "--yes", "cursor")
    file.write_text(file.read_text().replace("{\n", '{\n  "theirs": 1,\n', 1))
    result = run("client", "remove", "--undo", "--yes", "cursor")
    assert result.exit_code == 0
    assert "was changed since; what others wrote stays" in result.stdout
    assert json.loads(file.read_text()) == {"theirs": 1}


def test_undo_shows_what_others_changed_of_our_entry_and_leaves_it(run: Any, home: Path) -> None:
    file = home / ".cursor" / "mcp.json"
    run("client", "add", "--yes", "cursor")
    file.write_text(theirs := file.read_text().replace("/mcp", "/other/mcp"))
    result = run("client", "remove", "--undo", "--yes", "cursor")
    assert result.exit_code == exit_codes.FAILED
    assert "/other/mcp" in result.stdout
    assert "somebody else changed mcpServers.lm-tools-bridge since" in result.stderr
    assert file.read_text() == theirs


def test_show_tells_what_would_be_written_and_then_what_is_there(run: Any, home: Path) -> None:
    before = run("client", "show", "codex").stdout
    assert "would write" in before
    assert 'args = ["connect"]' in before
    assert "undo: not available" in before
    run("client", "add", "--yes", "codex")
    after = run("client", "show", "codex").stdout
    assert "configured: yes" in after
    assert "would write" not in after
    assert "lmtb client remove --undo codex" in after
    value = json.loads(run("client", "show", "codex", "--json").stdout)
    assert value["entry"] == value["wanted"]
    assert (value["path"], value["undo"]) == (["mcp_servers", "lm-tools-bridge"], True)


OLDER = """\
[mcp_servers.lm-tools-bridge]
url = "http://127.0.0.1:48123/mcp"
env_http_headers = { "X-Workspace-Cwd" = "PWD" }
enabled = false  # for now
"""


def test_update_changes_what_an_older_version_wrote_and_can_be_undone(run: Any, home: Path) -> None:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(OLDER)
    run("client", "add", "--yes", "cursor")
    result = run("client", "update", "--yes")
    assert result.exit_code == exit_codes.OK
    assert '-env_http_headers = { "X-Workspace-Cwd" = "PWD" }' in result.stdout
    assert "Cursor: nothing to do" in result.stdout
    assert "Codex: updated in ~/.codex/config.toml" in result.stdout
    value = tomllib.loads(file.read_text())["mcp_servers"]["lm-tools-bridge"]
    assert (value["args"], value["enabled"]) == (["connect"], False)
    assert "url" not in value and "# for now" in file.read_text()
    assert run("client", "update", "codex").stdout == "Codex: nothing to do\n"
    run("client", "remove", "--undo", "--yes", "codex")
    assert file.read_text() == OLDER


def test_update_adds_nothing_where_there_is_no_entry(run: Any, home: Path) -> None:
    nobody = run("client", "update", "--yes")
    assert (nobody.exit_code, "no client is configured" in nobody.stderr) == (exit_codes.FAILED, True)
    named = json.loads(run("client", "update", "cursor", "--yes", "--json").stdout)
    assert named["error"]["reason"] == "not_configured"
    assert named["clients"][0]["problem"]["nextStep"] == "lmtb client add cursor"
    assert not (home / ".cursor").exists()


def test_an_update_is_shown_first(run: Any, home: Path) -> None:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(OLDER)
    (row,) = json.loads(run("client", "update", "--dry-run", "--json").stdout)["clients"]
    assert (row["client"], row["result"], file.read_text()) == ("codex", "planned", OLDER)
    assert run("client", "update").exit_code == exit_codes.FAILED
    assert file.read_text() == OLDER


def test_a_yaml_file_keeps_its_comments(run: Any, home: Path) -> None:
    file = home / ".continue" / "config.yaml"
    file.parent.mkdir()
    before = "name: me  # mine\nmcpServers:\n  # of others\n  - name: other\n    command: a\n"
    file.write_text(before)
    assert run("client", "add", "continue", "--yes").exit_code == exit_codes.OK
    assert "  - name: lm-tools-bridge\n    command: " in file.read_text()
    assert "mcpServers:\n  - name: lm-tools-bridge" in run("client", "show", "continue").stdout
    assert run("client", "remove", "continue", "--yes").exit_code == exit_codes.OK
    assert file.read_text() == before


def test_an_entry_that_cannot_be_written_is_to_be_pasted(run: Any, home: Path) -> None:
    refused = run("client", "add", "continue", "--yes")
    assert refused.exit_code == exit_codes.FAILED
    assert "start the client once" in refused.stderr and "lmtb client show continue" in refused.stderr
    assert "mcpServers:\n  - name: lm-tools-bridge\n    command: " in run("client", "show", "continue").stdout


def test_show_explains_a_file_that_cannot_be_read(run: Any, home: Path) -> None:
    (home / ".claude.json").write_text("{\n")
    shown = run("client", "show", "claude-code").stdout
    assert ".claude.json, line 1" in shown
    assert "would write" in shown


def test_any_other_client_gets_an_entry_to_copy(run: Any, home: Path) -> None:
    text = run("client", "show", "other").stdout
    assert f"http://127.0.0.1:{PORT}/mcp" in text
    assert '"connect"' in text
    value = json.loads(run("client", "show", "other", "--json").stdout)
    assert value["http"] == {"url": f"http://127.0.0.1:{PORT}/mcp"}
    assert value["stdio"]["args"] == ["connect"]
    assert Path(value["stdio"]["command"]).is_absolute()


def test_the_port_of_the_running_manager_is_written(run: Any, home: Path, control: Any) -> None:
    result = run("client", "add", "--yes", "cursor")
    assert entry(home / ".cursor" / "mcp.json") == {"url": "http://127.0.0.1:9/mcp"}
    assert "Next step: start the manager" not in result.stdout


def test_a_named_port_is_written_and_the_running_one_is_mentioned(run: Any, home: Path, control: Any) -> None:
    result = run("client", "add", "--yes", "--port", "48999", "cursor")
    assert entry(home / ".cursor" / "mcp.json") == {"url": "http://127.0.0.1:48999/mcp"}
    assert "another port: 9" in result.stdout


def test_the_port_in_the_settings_is_written(run: Any, home: Path, paths: Paths, monkeypatch: Any) -> None:
    monkeypatch.delenv("LMTB_HTTP_PORT")
    paths.config_dir.mkdir(parents=True)
    paths.config_file.write_text("http_port = 48222\n")
    run("client", "add", "--yes", "cursor")
    assert entry(home / ".cursor" / "mcp.json") == {"url": "http://127.0.0.1:48222/mcp"}


@pytest.mark.parametrize(("port", "code"), [("0", exit_codes.FAILED), ("x", exit_codes.HOPELESS)])
def test_without_a_fixed_port_there_is_a_next_step(
    run: Any, home: Path, monkeypatch: pytest.MonkeyPatch, port: str, code: int
) -> None:
    monkeypatch.setenv("LMTB_HTTP_PORT", port)
    result = run("client", "add", "--yes", "cursor")
    assert result.exit_code == code
    assert "--port" in result.stderr
    assert not (home / ".cursor").exists()


def at_a_terminal(answer: bytes, environ: dict[str, str], *arguments: str) -> tuple[int, bytes]:
    """Runs a command at a terminal, types an answer when asked, and returns the exit code and the output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-I", "-m", "manager", "client", *arguments]
    with subprocess.Popen(command, env=environ, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while b"[y/N]" not in said and (part := read_some(ours)):
            said += part
        os.write(ours, answer)
        while part := read_some(ours):
            said += part
        os.close(ours)
        return process.wait(20), said


def read_some(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize(("answer", "written"), [(b"y\n", True), (b"n\n", False), (b"\n", False)])
def test_at_a_terminal_it_asks_first(
    environ: dict[str, str], home: Path, answer: bytes, written: bool
) -> None:
    code, said = at_a_terminal(answer, {**environ, "LMTB_HTTP_PORT": PORT}, "add", "cursor")
    assert code == exit_codes.OK
    assert b"\x1b[32m+{" in said
    assert (home / ".cursor" / "mcp.json").exists() == written


def test_no_color_is_respected_at_a_terminal(environ: dict[str, str], home: Path) -> None:
    colourless = {**environ, "LMTB_HTTP_PORT": PORT, "NO_COLOR": "1"}
    _, said = at_a_terminal(b"n\n", colourless, "add", "cursor")
    assert b"+{" in said
    assert b"\x1b[3" not in said
