"""The service that `lmtb client add` offers, and what it says where there is none."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from manager import exit_codes
from manager.client import Control, ManagerFault, NoManager
from manager.configuration.paths import Paths
from support.processes.installations.fake_systemd import Systemd

ENABLE = "--user enable --now lm-tools-bridge.socket lm-tools-bridge.service"
CONSEQUENCE = "Nothing starts the manager after a reboot"


def at_a_terminal(answers: list[tuple[bytes, bytes]], *arguments: str) -> tuple[int, str]:
    """Runs `lmtb client` at a terminal; each question is waited for and answered. Returns exit code and output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-I", "-m", "manager", "client", *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        for question, answer in answers:
            before = len(said)
            while question not in said[before:] and (part := read_some(ours)):
                said += part
            os.write(ours, answer)
        while part := read_some(ours):
            said += part
        os.close(ours)
        return process.wait(20), " ".join(said.decode().split())


def read_some(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize(
    ("answer", "changed", "installed"),
    [(b"y\n", True, True), (b"f\n", True, False), (b"n\n", False, False), (b"\n", False, False)],
)
def test_the_service_is_part_of_the_question(
    systemd: Systemd, answer: bytes, changed: bool, installed: bool
) -> None:
    code, said = at_a_terminal([(b"n = nothing", answer)], "add", "cursor")
    assert code == exit_codes.OK, said
    assert CONSEQUENCE in said
    assert (systemd.home / ".cursor/mcp.json").exists() is changed
    assert (ENABLE in systemd.calls(), systemd.service.exists()) == (installed, installed)


def test_it_is_offered_once_for_several_clients(systemd: Systemd) -> None:
    code, said = at_a_terminal([(b"n = nothing", b"f\n")], "add", "cursor", "windsurf")
    assert code == exit_codes.OK, said
    assert (
        said.count("n = nothing") == 1 and "Change the files of 2 clients? Install the service, too?" in said
    )
    assert (systemd.home / ".codeium/windsurf/mcp_config.json").exists()
    assert systemd.calls() == []


def test_nothing_is_offered_to_clients_that_start_the_manager_themselves(systemd: Systemd) -> None:
    code, said = at_a_terminal([(b"[y/N]", b"y\n")], "add", "claude-desktop")
    assert code == exit_codes.OK, said
    assert CONSEQUENCE not in said
    assert "lmtb up" not in said
    assert "Next step: start Claude Desktop in a project." in said


def test_nothing_is_offered_where_the_service_is_installed(systemd: Systemd, run: Callable[..., Any]) -> None:
    assert run("client", "add", "--yes", "--service", "cursor").exit_code == exit_codes.OK
    before = systemd.calls()
    assert ENABLE in before
    code, said = at_a_terminal([(b"[y/N]", b"y\n")], "add", "windsurf")
    assert code == exit_codes.OK, said
    assert CONSEQUENCE not in said
    assert systemd.calls() == before


def test_without_questions_the_service_is_not_installed_but_named(
    systemd: Systemd, run: Callable[..., Any]
) -> None:
    result = run("client", "add", "--yes", "codex", "gemini-cli")
    assert result.exit_code == exit_codes.OK
    assert f"{CONSEQUENCE}, and without it" in result.stdout
    assert "Gemini CLI has no tools for the whole session" in result.stdout
    assert "at each login: lmtb service install" in result.stdout
    assert systemd.calls() == []


@pytest.mark.parametrize("arguments", [("--no-service",), ("--json",), ("--dry-run",)])
def test_who_wants_to_hear_nothing_of_it_does_not(
    systemd: Systemd, run: Callable[..., Any], arguments: tuple[str, ...]
) -> None:
    result = run("client", "add", "--yes", "cursor", *arguments)
    assert result.exit_code == exit_codes.OK
    assert CONSEQUENCE not in result.stdout
    assert systemd.calls() == []


def test_without_a_terminal_nothing_hangs_and_nothing_is_changed(
    systemd: Systemd, run: Callable[..., Any]
) -> None:
    result = run("client", "add", "cursor")
    assert result.exit_code == exit_codes.FAILED
    assert "repeat the command with --yes" in result.stderr
    assert not (systemd.home / ".cursor").exists()


def test_where_no_service_can_exist_the_note_names_the_command_that_starts_the_manager(
    systemd: Systemd, run: Callable[..., Any]
) -> None:
    systemd.mark("no-bus")
    result = run("client", "add", "--yes", "cursor")
    assert result.exit_code == exit_codes.OK
    assert "To start it: lmtb up\n" in result.stdout


def test_a_service_that_is_asked_for_and_impossible_changes_nothing(
    systemd: Systemd, run: Callable[..., Any]
) -> None:
    systemd.mark("no-bus")
    result = run("client", "add", "--yes", "--service", "cursor")
    assert result.exit_code == exit_codes.FAILED
    assert "has no manager for this user" in result.stderr
    assert not (systemd.home / ".cursor").exists()


def test_settings_of_this_shell_alone_keep_the_service_out(
    systemd: Systemd, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service would have another port than the entry."""
    monkeypatch.setenv("LMTB_HTTP_PORT", "48123")
    result = run("client", "add", "--yes", "--service", "cursor")
    assert result.exit_code == exit_codes.FAILED
    assert "LMTB_HTTP_PORT" in result.stderr
    assert not Path(systemd.home, ".cursor").exists()


@pytest.mark.processes
def test_the_service_takes_over_from_a_manager_in_the_background(
    systemd: Systemd, run: Callable[..., Any]
) -> None:
    command = [sys.executable, "-I", "-m", "manager", "serve", "--background", "--no-fork-servers"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as manager:
        try:
            until_answers()
            result = run("client", "add", "--yes", "--service", "cursor")
            assert result.exit_code == exit_codes.OK, result.output
            assert manager.wait(20) == 0
            assert ENABLE in systemd.calls()
        finally:
            manager.kill()


def until_answers() -> None:
    deadline = time.monotonic() + 30
    control = Control(Paths.of_user().control_socket)
    while True:
        with suppress(NoManager, ManagerFault):
            control.get("/status")
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)
