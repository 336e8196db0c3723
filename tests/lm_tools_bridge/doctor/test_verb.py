"""Tests of doctor: each fault it knows is found, with a next step."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.doctor import checks
from lm_tools_bridge.machine.private_files import make_private
from manager import __version__, exit_codes
from manager.configuration.paths import Paths
from manager.startup.lock import Lock


@pytest.fixture
def diagnose(run: Any) -> Any:
    """Runs doctor; the findings by check, worst last."""

    def call() -> tuple[int, dict[str, dict[str, Any]]]:
        result = run("doctor", "--json")
        found = json.loads(result.stdout)["checks"]
        order = {"ok": 0, "warn": 1, "fail": 2}
        return result.exit_code, {
            one["check"]: one for one in sorted(found, key=lambda one: order[one["level"]])
        }

    return call


def healthy(**members: Any) -> dict[str, Any]:
    return {
        "ok": True,
        "version": __version__,
        "pid": 1,
        "address": "http://127.0.0.1:5/mcp",
        "state": "ready",
        **members,
    }


def test_nothing_running_is_a_warning_that_says_how_to_start(diagnose: Any) -> None:
    code, found = diagnose()
    assert code == exit_codes.OK
    assert found["manager"]["level"] == "warn"
    assert "lmtb up" in found["manager"]["hint"]


def test_clients_are_checked_by_their_files_alone_without_a_manager(diagnose: Any, run: Any) -> None:
    added = run("client", "add", "codex", "--port", "48123", "--yes", "--json")
    file = Path(json.loads(added.stdout)["clients"][0]["file"])
    file.write_text(file.read_text().replace("required = true\n", ""))
    _, found = diagnose()
    assert found["clients"]["level"] == "warn"
    assert found["clients"]["message"].startswith("Codex: only the files are checked")
    assert "lmtb up" in found["clients"]["hint"]
    assert found["Codex"]["hint"] == "lmtb client update codex"
    assert "required = true is missing" in found["Codex"]["message"]


def test_other_version_is_a_warning(diagnose: Any, control: Any) -> None:
    control.say("GET /mcp/status", healthy(version="0.0.0"))
    _, found = diagnose()
    assert found["manager"]["level"] == "warn"
    assert found["manager"]["hint"] == "change over with: lmtb restart", (
        "lmtb up might start the same one again"
    )
    assert "0.0.0" in found["manager"]["message"] and __version__ in found["manager"]["message"]


def test_degraded_state_is_a_warning_with_its_reason(diagnose: Any, control: Any) -> None:
    control.say("GET /mcp/status", healthy(state="degraded", degraded=["disk full"]))
    _, found = diagnose()
    assert found["manager"]["level"] == "warn"
    assert "disk full" in found["manager"]["message"]


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ("state cannot be saved: the disk of /s is full", "sessions may not survive a restart"),
        ("calls are not recorded: the disk of /s is full", "calls themselves go on"),
        ("the installed program is gone from /p: install it again", "servers that run go on"),
    ],
)
def test_what_is_lost_until_then_depends_on_what_does_not_work(
    diagnose: Any, control: Any, reason: str, hint: str
) -> None:
    control.say("GET /mcp/status", healthy(state="degraded", degraded=[reason]))
    assert hint in diagnose()[1]["manager"]["hint"]


def test_manager_that_does_not_answer_sense_is_a_failure(diagnose: Any, control: Any) -> None:
    control.say("GET /mcp/status", b"nonsense")
    code, found = diagnose()
    assert code == exit_codes.FAILED
    assert found["manager"]["level"] == "fail"


@pytest.mark.parametrize("is_manager", [True, False])
def test_a_manager_that_no_verb_can_stop_is_told_with_what_ends_it(
    diagnose: Any, control: Any, paths: Paths, is_manager: bool
) -> None:
    """`lmtb stop` and `lmtb restart` ask it, and fail as doctor does."""
    control.say("GET /mcp/status", b"nonsense")
    make_private(paths.runtime_dir)
    lock = Lock.acquire(paths.lock_file)
    assert isinstance(lock, Lock)
    written = paths.lock_file.read_bytes()
    if not is_manager:
        lock.release()
    _, found = diagnose()
    expected = f"kill -KILL {os.getpid()}; then: lmtb up" if is_manager else f"rm {paths.control_socket}"
    assert found["manager"]["hint"].endswith(expected)
    assert paths.lock_file.read_bytes() == written
    lock.release()


@pytest.mark.parametrize(
    ("started_by", "variable", "hint"),
    [("background", False, "lmtb stop && lmtb up"), ("service", False, "lmtb service install"),
     ("service", True, "set http_port in config.toml")],
)  # fmt: skip
def test_a_port_is_changed_where_the_manager_has_it_from(
    diagnose: Any,
    control: Any,
    monkeypatch: pytest.MonkeyPatch,
    paths: Paths,
    started_by: str,
    variable: bool,
    hint: str,
) -> None:
    """A service keeps the port of its units, whoever stops and starts it."""
    control.say("GET /mcp/status", healthy())
    control.say("GET /status", {"ok": True, "startedBy": started_by})
    monkeypatch.delenv("LMTB_HTTP_PORT")
    if variable:
        monkeypatch.setenv("LMTB_HTTP_PORT", "48123")
    else:
        paths.config_dir.mkdir(parents=True)
        paths.config_file.write_text("http_port = 48123\n")
    _, found = diagnose()
    assert found["port"]["level"] == "warn"
    assert found["port"]["hint"].endswith(hint)


def test_crash_looping_workspace_fails_with_its_last_words(diagnose: Any, control: Any) -> None:
    row = {
        "id": "ill-3",
        "root": "/srv/ill",
        "state": "crash_looping",
        "lastError": "ended with code 1",
        "stderrTail": [f"line {number}" for number in range(20)],
    }
    control.say("GET /mcp/status", healthy(workspaceDetails=[row]))
    code, found = diagnose()
    assert code == exit_codes.FAILED
    assert "ended with code 1" in found["workspaces"]["message"]
    assert found["workspaces"]["details"] == [f"line {number}" for number in range(15, 20)]


@pytest.mark.parametrize(("name", "lines"), [("ill-3", ["last words"]), ("../../ill-3", [])])
def test_last_words_of_an_unhealthy_server_come_from_its_own_log_only(
    diagnose: Any, control: Any, paths: Paths, name: str, lines: list[str]
) -> None:
    paths.logs_dir.mkdir(parents=True)
    paths.state_dir.chmod(0o700)
    (paths.logs_dir / "ill-3.log").write_text("last words\n")
    row = {"id": name, "root": "/srv/ill", "state": "unhealthy"}
    control.say("GET /mcp/status", healthy(workspaceDetails=[row]))
    _, found = diagnose()
    assert found["workspaces"]["details"] == lines


def source(state: str, **members: Any) -> dict[str, Any]:
    return {"id": "remote:g h", "namespace": "g h", "state": state, **members}


def issue(code: str, level: str = "error") -> dict[str, Any]:
    return {"code": code, "level": level, "message": "text", "details": "lmtb trust /srv"}


@pytest.mark.parametrize(
    ("members", "level", "said", "step"),
    [
        ({"sources": [source("ready")]}, "ok", "1 in running workspaces", ""),
        ({"sources": [source("starting"), source("disabled")]}, "ok", "2 in running", ""),
        (
            {"sources": [source("crash_looping", error="code 3")]},
            "fail",
            'p-1: "remote:g h" ends again and again: code 3',
            "lmtb servers restart 'remote:g h' --cwd '/srv/a b'",
        ),
        ({"sources": [source("failed")]}, "fail", "unknown cause", "lmtb servers --cwd '/srv/a b'"),
        ({"sources": [source("backoff")]}, "warn", "is started again", "lmtb servers restart"),
        (
            {"sources": [source("auth_required")]},
            "warn",
            "does not accept the credentials",
            "lmtb servers login 'g h'",
        ),
        ({"issues": [issue("TRUST_PENDING", "warning")]}, "warn", "1 item waits", "lmtb trust /srv"),
        ({"issues": [issue("TOOL_SCHEMA_INVALID")]}, "fail", "text", "lmtb tools --cwd '/srv/a b'"),
        ({"issues": [issue("X", "warning")]}, "ok", "have not reported", ""),
    ],
)
def test_sources_in_trouble_are_named_with_the_next_step(
    diagnose: Any, control: Any, members: dict[str, Any], level: str, said: str, step: str
) -> None:
    server = {"workspace": "p-1", "root": "/srv/a b", "state": "ready", "sources": [], **members}
    control.say("GET /mcp/status", healthy(instanceDetails=[server]))
    code, found = diagnose()
    assert (found["sources"]["level"], code) == (level, exit_codes.FAILED if level == "fail" else 0)
    assert said in found["sources"]["message"]
    assert step in (found["sources"]["hint"] or "")


def test_what_twenty_worktrees_wait_for_is_one_line(diagnose: Any, control: Any) -> None:
    roots = ["/srv/shop", *(f"/srv/shop/.claude/worktrees/{number}" for number in range(19))]
    known = [{"id": root[5:], "root": root, "repository": "/srv/shop/.git"} for root in roots]
    waiting = {"sources": [], "issues": [issue("TRUST_PENDING", "warning")]}
    servers = [{"workspace": root[5:], "root": root, "state": "ready", **waiting} for root in roots]
    control.say("GET /mcp/status", healthy(workspaceDetails=known, instanceDetails=servers))
    _, found = diagnose()
    assert found["sources"]["message"] == "shop and 19 other worktrees: 1 item waits for your trust"


@pytest.mark.parametrize(
    ("mode", "level"), [(0o700, "ok"), (0o750, "fail"), (0o707, "fail")], ids=["private", "group", "others"]
)
def test_folder_open_to_others_is_a_failure(diagnose: Any, paths: Paths, mode: int, level: str) -> None:
    make_private(paths.state_dir)
    paths.state_dir.chmod(mode)
    _, found = diagnose()
    assert found["state folder"]["level"] == level
    assert (level == "ok") or "chmod 700" in found["state folder"]["hint"]


def test_symbolic_link_as_state_folder_is_a_failure(diagnose: Any, paths: Paths, tmp_path: Path) -> None:
    paths.state_dir.symlink_to(tmp_path / "home")
    assert diagnose()[1]["state folder"]["level"] == "fail"


def test_configuration_that_stops_a_manager_is_a_failure(
    diagnose: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LMTB_HTTP_PORT", "many")
    code, found = diagnose()
    assert code == exit_codes.FAILED
    assert "LMTB_HTTP_PORT" in found["configuration"]["message"]


def test_another_program_on_the_other_loopback_address_is_a_warning(diagnose: Any, control: Any) -> None:
    with socket.socket(socket.AF_INET6) as stranger:
        try:
            stranger.bind(("::1", 0))
        except OSError as error:
            pytest.skip(f"no IPv6 here: {error}")
        stranger.listen()
        port = stranger.getsockname()[1]
        control.say("GET /mcp/status", healthy(address=f"http://127.0.0.1:{port}/mcp"))
        _, found = diagnose()
    assert found["localhost"]["level"] == "warn"
    assert "127.0.0.1" in found["localhost"]["hint"]


def test_missing_ripgrep_is_a_warning(diagnose: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks.shutil, "which", lambda *_arguments, **_options: None)
    assert diagnose()[1]["ripgrep"]["level"] == "warn"


def test_half_installed_units_are_a_warning(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho failed\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    units = tmp_path / "xdg" / "systemd" / "user"
    units.mkdir(parents=True)
    (units / "lm-tools-bridge.service").touch()
    result = run("doctor")
    assert "only lm-tools-bridge.service is installed" in result.stdout
    assert "FAIL  systemd: lm-tools-bridge.service is failed" in result.stdout


@pytest.mark.parametrize(
    ("port", "listed", "expected"),
    [(47100, "47100\n", True), (47100, "1,47000-47200\n", True), (47100, "\n", False), (1, "2-3,5", False)],
)
def test_reserved_ports_are_read_as_the_kernel_writes_them(port: int, listed: str, expected: bool) -> None:
    assert checks._is_listed(port, listed) is expected


def test_servers_that_a_client_starts_itself_are_a_warning(
    diagnose: Any, control: Any, tmp_path: Path
) -> None:
    root = tmp_path / "my project"
    root.mkdir()
    (root / ".mcp.json").write_text('{"mcpServers": {"docs": {"command": "x"}, "odd": {"type": 1}}}')
    control.say("GET /mcp/status", healthy(workspaceDetails=[{"id": "mine-1", "root": str(root)}]))
    assert "client servers" not in diagnose()[1], "the user has not allowed it in Claude Code"
    (root / ".claude").mkdir()
    (root / ".claude/settings.json").write_text('{"enabledMcpjsonServers": ["docs"]}')
    assert "client servers" not in diagnose()[1], "Claude Code has no entry of ours"
    entry = {"mcpServers": {"lm-tools-bridge": {"type": "http", "url": "http://127.0.0.1:47100/mcp"}}}
    (Path.home() / ".claude.json").write_text(json.dumps(entry))
    found = diagnose()[1]
    assert found["client servers"]["level"] == "warn"
    assert 'Claude Code starts "docs" of .mcp.json' in found["client servers"]["message"]
    assert found["client servers"]["hint"].endswith(f"lmtb adopt --cwd '{root}'")
    (root / ".mcp.json").write_text("{}")
    assert "client servers" not in diagnose()[1]


def test_a_folder_that_cannot_be_made_fails(diagnose: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks.os, "access", lambda path, mode: False)
    code, found = diagnose()
    assert code == exit_codes.FAILED
    assert found["state folder"]["level"] == "fail"
    assert "cannot be made" in found["state folder"]["message"]


def test_a_current_folder_that_is_gone_fails_no_check(
    diagnose: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code, found = diagnose()
    assert code == exit_codes.OK
    assert "no longer exists" in found["clients"]["message"]


def test_languages_of_running_workspaces_are_told(
    diagnose: Any, control: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / "main.lua").write_text("")
    (project / "main.py").write_text("")
    program = project / ".venv" / "bin" / "ruff"
    program.write_text(f"#!/bin/sh\ntouch {project}/ran\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    server = {"workspace": "p-1", "root": str(project), "state": "ready", "sources": []}
    control.say("GET /mcp/status", healthy(instanceDetails=[server]))
    _, found = diagnose()
    told = found["languages"]
    assert "lua" in told["message"]
    assert "lmtb languages" in told["message"]
    assert not (project / "ran").exists()


def test_a_client_that_did_not_expand_a_variable_is_named(diagnose: Any, control: Any) -> None:
    clients = [
        {"name": "gemini", "requests": [{"method": "tools/list", "sent": {"?cwd": "/a"}}]},
        {
            "name": "cline",
            "requests": [
                {"method": "tools/list", "sent": {"?cwd": "/a"}},
                {"method": "tools/list", "sent": {"X-Workspace-Cwd": "$PWD"}},
            ],
        },
    ]
    control.say("GET /mcp/status", healthy(clients=clients))
    _, found = diagnose()
    assert found["clients"]["level"] == "warn"
    assert found["clients"]["message"].startswith(
        "cline: the client did not expand $PWD in its header X-Workspace-Cwd"
    )


@pytest.mark.parametrize(
    ("member", "level"), [("contradiction", "warn"), ("overruled", "ok")], ids=["refused", "overruled"]
)
def test_a_client_whose_requests_name_two_projects_is_named(
    diagnose: Any, control: Any, member: str, level: str
) -> None:
    requests = [{"method": "tools/call", "workspace": "b-1", member: "/srv/a and /srv/b"}, {"method": "x"}]
    control.say("GET /mcp/status", healthy(clients=[{"name": "cline", "requests": requests}]))
    _, found = diagnose()
    assert found["clients"]["level"] == level
    assert found["clients"]["message"].startswith("cline")
    assert "/srv/a and /srv/b" in found["clients"]["message"]


def test_failures_are_printed_first_and_what_is_well_last(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(checks.os, "access", lambda path, mode: False)
    lines = [line for line in run("doctor").stdout.splitlines() if line[:4].strip() in ("FAIL", "WARN", "OK")]
    levels = [line[:4].strip() for line in lines]
    assert levels == sorted(levels, key=("FAIL", "WARN", "OK").index)
    assert {"FAIL", "OK"} <= set(levels)
