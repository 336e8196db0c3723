"""Tests of the verbs that show something, against canned answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from manager import exit_codes
from support.projects.sample_status import STATUS


def cells(line: str) -> list[str]:
    return [cell for cell in line.split("  ") if cell.strip()]


@pytest.fixture
def manager(control: Any) -> Any:
    control.say("GET /mcp/status", STATUS)
    return control


@pytest.mark.usefixtures("manager")
def test_status_tells_state_address_and_problems(run: Any) -> None:
    shown = run("status").stdout
    assert "LM Tools Bridge 9.8.7 is degraded (pid 4711, up 2 h 5 min)" in shown
    assert "http://127.0.0.1:5/mcp" in shown
    assert "problem    the state folder is full" in shown
    assert "problem    ill-3 is crash_looping: ended with \\x1b[31m1" in shown
    assert [line for line in shown.splitlines() if "theirs-9:" in line] == [
        'problem    theirs-9: "stdio:gh" ended or failed and is started again: end\\x1bed',
        "problem    theirs-9: a file is broken",
        "problem    theirs-9: 1 item waits for your trust",
    ]
    assert "next step  lmtb doctor\n" in shown
    assert "3 known, 2 running, 1 more whose folder is gone" in shown
    assert "own time   0.06 ms and 1.3 ms a call" in shown


@pytest.mark.usefixtures("manager")
def test_workspaces_are_joined_with_their_servers(run: Any) -> None:
    lines = run("workspaces").stdout.splitlines()
    rows = {line.split()[0]: line.split() for line in lines[1:]}
    counted, used = ["22", "21001", "3", "0"], ["1", "51", "MB", "0.2", "s"]
    assert rows["busy-2"][1:] == ["ready", *counted, "12", "ms", "2.5", "s", *used, "/srv/busy"]
    assert rows["quiet-1"][1:] == ["gone", *["-"] * 9, "/srv/quiet"]
    assert list(rows) == ["quiet-1", "busy-2", "ill-3", "theirs-9"]


@pytest.mark.usefixtures("manager")
def test_sessions_show_client_workspace_and_what_decided(run: Any) -> None:
    row = run("sessions").stdout.splitlines()[1]
    assert [cell.strip() for cell in cells(row)] == [
        "abcdefgh…",
        "cl\\x07aude",
        "2025-06-18",
        "busy-2",
        "session",
        "1 min ago",
        "2",
    ]


@pytest.mark.usefixtures("manager")
@pytest.mark.parametrize(
    ("verb", "member", "count"),
    [("workspaces", "workspaces", 4), ("sessions", "sessions", 1)],
)
def test_json_is_whole_and_plain_ascii(run: Any, verb: str, member: str, count: int) -> None:
    shown = run(verb, "--json").stdout
    assert shown.isascii() and "\x1b" not in shown
    assert len(json.loads(shown)[member]) == count


@pytest.mark.usefixtures("manager")
def test_status_json_is_the_managers_own(run: Any) -> None:
    assert json.loads(run("status", "--json").stdout) == {**STATUS, "project": None, "savings": None}


@pytest.mark.parametrize(
    "answer", [{"ok": True}, {"instanceDetails": None, "sessionDetails": [7], "degraded": 1}]
)
@pytest.mark.parametrize("verb", ["status", "workspaces", "sessions"])
def test_missing_members_are_tolerated(run: Any, control: Any, verb: str, answer: dict[str, Any]) -> None:
    control.say("GET /mcp/status", answer)
    result = run(verb)
    assert result.exit_code == 0
    assert result.stdout


@pytest.mark.parametrize("verb", ["status", "workspaces", "sessions", "tools"])
def test_without_a_manager_the_next_step_is_printed(run: Any, verb: str) -> None:
    result = run(verb)
    assert result.exit_code == exit_codes.NO_MANAGER
    assert result.stderr == "no manager is running\nNext step: start it with: lmtb up\n"
    assert result.stdout == ""


def test_without_a_manager_json_says_so_to_programs(run: Any) -> None:
    result = run("status", "--json")
    assert result.exit_code == exit_codes.NO_MANAGER
    assert json.loads(result.stdout)["error"]["reason"] == "no_manager"


def test_refusal_of_the_manager_is_printed(run: Any, control: Any) -> None:
    control.say("GET /mcp/status", {"ok": False, "reason": "forbidden"}, 403)
    result = run("status")
    assert result.exit_code == exit_codes.FAILED
    assert "forbidden" in result.stderr and "lmtb doctor" in result.stderr


def test_impossible_runtime_folder_is_reported(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTB_RUNTIME_DIR", "relative")
    result = run("status")
    assert result.exit_code == exit_codes.HOPELESS
    assert "LMTB_RUNTIME_DIR" in result.stderr
