"""Tests of the verb servers against canned answers."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from manager import exit_codes


def source(identity: str, state: str = "ready", **members: Any) -> dict[str, Any]:
    return {"id": identity, "state": state, "toolCount": 2, "enabledToolCount": 1, **members}


INSPECTED: dict[str, Any] = {
    "ok": True,
    "sources": [
        source("builtin"),
        source("stdio:slow", "starting"),
        source(
            "stdio:gh", "backoff", stale=True, pid=7, restarts=3, error="ended\x1b", stderr=["one", "t\x1bwo"]
        ),
        source("remote:gh", "pending_trust"),
        source("stdio:ok", stderr=["chatter"]),
    ],
    "tools": [
        {"name": "a", "source": "stdio:ok", "listed": True, "tokens": 30},
        {"name": "b", "source": "stdio:ok", "listed": False, "tokens": 500},
    ],
    "issues": [{"level": "error", "category": "x", "code": "X", "message": "broken"}],
}


@pytest.fixture
def inspected(control: Any) -> Any:
    control.say("POST /inspect", INSPECTED)
    done = {"stdio:slow": "it was ended\x1b and is ready again"}
    control.say("POST /restart_sources", {"ok": True, "restarted": done})
    return control


@pytest.mark.usefixtures("inspected")
def test_what_needs_attention_comes_first(run: Any) -> None:
    result = run("servers")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert [row[0] for row in rows[1:]] == ["stdio:gh", "remote:gh", "builtin", "stdio:slow", "stdio:ok"]
    assert rows[1] == ["stdio:gh", "retrying", "(stale)", "2", "1", "0", "7", "3", "ended\\x1b"]
    assert rows[5][4] == "30"
    assert result.stderr == "\nstdio:gh last wrote:\n  one\n  t\\x1bwo\nerror: broken\n"


@pytest.mark.usefixtures("inspected")
def test_json_has_sources_and_issues(run: Any) -> None:
    found = json.loads(run("servers", "--json").stdout)
    assert found == {"ok": True, "sources": INSPECTED["sources"], "issues": INSPECTED["issues"]}


@pytest.mark.parametrize(
    ("name", "asked"), [("stdio:gh", "stdio:gh"), ("slow", "stdio:slow"), ("builtin", "builtin")]
)
def test_a_source_is_restarted_and_shown_with_what_was_done(
    run: Any, inspected: Any, name: str, asked: str
) -> None:
    shown = run("servers", "restart", name, "--cwd", "/srv").stdout.splitlines()
    assert ("POST /restart_sources", {"cwd": "/srv", "source": asked}) in inspected.asked
    assert shown[0] == "stdio:slow: it was ended\\x1b and is ready again"
    assert [line.split()[0] for line in shown[3:]] == [asked]


def test_without_a_name_all_sources_are_restarted(run: Any, inspected: Any) -> None:
    shown = run("servers", "restart", "--cwd", "/srv").stdout.splitlines()
    assert ("POST /restart_sources", {"cwd": "/srv"}) in inspected.asked
    assert len(shown) == 3 + len(INSPECTED["sources"])
    told = json.loads(run("servers", "restart", "--json").stdout)
    assert told["restarted"] == {"stdio:slow": "it was ended\x1b and is ready again"}


@pytest.mark.parametrize(
    ("name", "said"), [("nix", "it has builtin, stdio:slow"), ("gh", "stdio:gh, remote:gh")]
)
def test_a_name_that_fits_none_or_several_is_refused_with_what_there_is(
    run: Any, inspected: Any, name: str, said: str
) -> None:
    result = run("servers", "restart", name)
    assert result.exit_code == exit_codes.FAILED
    assert said in result.stderr
    assert all(request != "POST /restart_sources" for request, _ in inspected.asked)


@pytest.mark.parametrize("verb", [("servers",), ("servers", "restart")])
def test_without_a_manager_the_next_step_is_printed(run: Any, verb: tuple[str, ...]) -> None:
    result = run(*verb)
    assert result.exit_code == exit_codes.NO_MANAGER
    assert result.stderr == "no manager is running\nNext step: start it with: lmtb up\n"


def test_signing_in_is_handed_on_with_the_workspace(
    run: Any, control: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: found.append(command))
    control.say("POST /resolve", {"ok": True, "match": {"workspaceFolders": ["/srv/p"]}})
    run("servers", "login", "gh", "--cwd", "/")
    assert found[0][-4:] == ["login", "--", "/srv/p", "gh"]
