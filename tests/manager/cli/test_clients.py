"""`lmtb clients` against canned answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from manager import exit_codes

CODEX: dict[str, Any] = {
    "name": "co\x07dex",
    "version": "0.169.0",
    "era": "legacy",
    "workspace": "site-1",
    "folder": "/srv/site",
    "source": "header",
    "state": "connected",
    "sessions": 1,
    "lastCallAgeSec": 61,
}
CLAUDE = {**CODEX, "name": "claude-code", "era": "modern", "workspace": None, "state": "idle", "sessions": 0}
RECENT = {**CODEX, "name": "gemini", "state": "gone", "sessions": 3, "lastCallAgeSec": 3600}
OLD = {**CODEX, "name": "old", "state": "gone", "lastCallAgeSec": 3601}
SILENT = {**CODEX, "name": "silent", "lastCallAgeSec": 90_000}
EVERYONE = [CODEX, CLAUDE, RECENT, OLD, SILENT]


@pytest.fixture
def manager(control: Any) -> Any:
    control.say("GET /mcp/status", {"ok": True, "connectedClients": 2, "clientDetails": EVERYONE})
    return control


def names(shown: str) -> list[str]:
    return [line.split()[0] for line in shown.splitlines()[1:] if " ago" in line]


@pytest.mark.usefixtures("manager")
def test_a_row_tells_client_state_project_and_what_decided(run: Any) -> None:
    lines = [" ".join(line.split()) for line in run("clients").stdout.splitlines()]
    assert lines[0] == "CLIENT VERSION ERA STATE PROJECT DECIDED BY LAST CALL SESSIONS"
    assert lines[1] == r"co\x07dex 0.169.0 session connected site-1 header 1 min ago 1"
    assert lines[2] == "claude-code 0.169.0 stateless idle /srv/site header 1 min ago -"
    assert lines[3].endswith(" 3")


@pytest.mark.usefixtures("manager")
def test_clients_gone_for_over_an_hour_are_counted_and_listed_on_request(run: Any) -> None:
    """A connected client is listed however silent it is."""
    shown = run("clients").stdout
    assert names(shown) == [r"co\x07dex", "claude-code", "gemini", "silent"]
    assert "1 more, gone for over an hour: lmtb clients --all\n" in shown
    every = run("clients", "--all").stdout
    assert names(every) == [r"co\x07dex", "claude-code", "gemini", "old", "silent"]
    assert "more, gone" not in every


@pytest.mark.usefixtures("manager")
def test_json_has_the_same_clients_and_the_number_of_connected_ones(run: Any) -> None:
    shown = json.loads(run("clients", "--json").stdout)
    assert shown == {"ok": True, "connected": 2, "clients": [CODEX, CLAUDE, RECENT, SILENT]}
    assert json.loads(run("clients", "--all", "--json").stdout)["clients"] == EVERYONE


def test_a_connected_client_without_a_project_is_told_where_to_read(run: Any, manager: Any) -> None:
    lost = {**CODEX, "workspace": None, "folder": None, "source": "none"}
    manager.say("GET /mcp/status", {"ok": True, "connectedClients": 1, "clientDetails": [lost]})
    assert "no project? how each client can send its folder: " in run("clients").stdout


def test_nobody_was_seen_is_said(run: Any, manager: Any) -> None:
    manager.say("GET /mcp/status", {"ok": True, "connectedClients": 0, "clientDetails": []})
    assert run("clients").stdout.startswith("no client has been seen")


def test_an_older_manager_that_lists_no_clients_is_told_of(run: Any, manager: Any) -> None:
    manager.say("GET /mcp/status", {"ok": True, "sessions": 3})
    result = run("clients")
    assert result.exit_code == exit_codes.FAILED
    assert "older than this command" in result.stderr
    assert "change over with: lmtb restart" in result.stderr


@pytest.mark.parametrize("verb", ["sessions", "whoami"])
def test_the_verbs_of_details_are_hidden_and_name_this_one(run: Any, verb: str) -> None:
    assert f"\n  {verb} " not in run("--help").stdout
    shown = run(verb, "--help")
    assert shown.exit_code == 0
    assert "see: lmtb clients" in " ".join(shown.stdout.split())


def test_status_tells_how_many_clients_are_connected(run: Any, manager: Any) -> None:
    """Not how many sessions are remembered."""
    manager.say("GET /mcp/status", {"ok": True, "sessions": 40, "connectedClients": 2})
    lines = run("status").stdout.splitlines()
    assert "clients    2 connected" in lines
    assert not [line for line in lines if line.startswith("sessions")]
