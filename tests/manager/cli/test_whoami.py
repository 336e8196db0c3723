"""`lmtb whoami` against canned answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

CLIENTS: list[dict[str, Any]] = [
    {
        "name": "claude-code",
        "version": "2.1",
        "era": "modern",
        "protocolVersion": "2026-07-28",
        "lastSeenAgeSec": 3,
        "requests": [
            {"method": "tools/list", "source": "none", "workspace": None, "sent": {}},
            {
                "method": "tools/call",
                "source": "query",
                "workspace": "proj-1",
                "sent": {"?cwd": "/srv/proj\x1b[31m"},
            },
        ],
    },
    {"name": None, "era": "legacy", "protocolVersion": "2025-06-18", "requests": []},
]


@pytest.fixture
def manager(control: Any) -> Any:
    control.say("GET /mcp/status", {"ok": True, "clients": CLIENTS})
    return control


@pytest.mark.usefixtures("manager")
def test_each_client_is_shown_with_what_it_sent_and_what_decided(run: Any) -> None:
    """Text of clients cannot act on the terminal."""
    shown = run("whoami").stdout
    assert "\x1b" not in shown
    lines = shown.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("claude-code 2.1"))
    assert "stateless 2026-07-28" in lines[at]
    assert "3 s ago" in lines[at]
    newest = lines[at + 2]
    assert newest.split()[0] == "tools/call" and "  proj-1  " in newest
    assert "?cwd= in the address" in newest
    assert r"?cwd=/srv/proj\x1b[31m" in newest


@pytest.mark.usefixtures("manager")
def test_json_is_what_the_manager_said(run: Any) -> None:
    assert json.loads(run("whoami", "--json").stdout) == {"ok": True, "clients": CLIENTS}


def test_nobody_asked_is_said(run: Any, manager: Any) -> None:
    manager.say("GET /mcp/status", {"ok": True, "clients": []})
    assert run("whoami").stdout == "no client has sent a request since the manager started\n"


@pytest.mark.parametrize(
    ("member", "text", "shown"),
    [
        ("overruled", "?cwd= in the client's address: /a", "the client's roots, not ?cwd= in the client's"),
        ("contradiction", "this request could mean two", "the client's roots: this request could mean two"),
    ],
)
def test_what_was_overruled_and_what_contradicts_is_shown(
    run: Any, control: Any, member: str, text: str, shown: str
) -> None:
    request = {"method": "tools/call", "source": "roots", "workspace": "p", "sent": {}, member: text}
    client = {"name": "c", "era": "modern", "protocolVersion": "2026-07-28", "requests": [request]}
    control.say("GET /mcp/status", {"ok": True, "clients": [client]})
    assert shown in run("whoami").stdout


def test_a_variable_that_the_client_did_not_expand_is_named(run: Any, control: Any) -> None:
    request = {"method": "tools/list", "source": "none", "workspace": None, "sent": {"?cwd": "${PWD}"}}
    client = {"name": "c", "era": "modern", "protocolVersion": "2026-07-28", "requests": [request]}
    control.say("GET /mcp/status", {"ok": True, "clients": [client]})
    assert "did not expand ${PWD}" in run("whoami").stdout
