"""Tests of the handshake result: members, guidance and text."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.protocol.issues import Issue
from manager.routing.discovery.handshake_result import CODE_STEP, next_steps, payload, summary
from manager.routing.discovery.payload import discovery

TARGET = {
    "sessionId": "i-7c1e",
    "host": "127.0.0.1",
    "port": 21801,
    "workspaceFolders": ["/home/ada/proj"],
    "workspaceFile": None,
}
DOWN = Issue("error", "source", "SOURCE_UNAVAILABLE", "tools are missing", None, "exit code 3")
UNTRUSTED = Issue("warning", "trust", "TRUST_PENDING", "pending until trusted", "lint")


def answer(
    session: str | None = "s-1", *issues: Issue, tools: tuple[str, ...] = ("b", "a")
) -> dict[str, Any]:
    return payload(
        session_id=session,
        workspace="proj-3f9a2c1b",
        cwd="/home/ada/proj/src",
        target=TARGET,
        health={"ok": True},
        discovery=discovery([{"name": name, "description": ""} for name in tools], issues),
    )


def test_a_bound_session_is_named() -> None:
    found = answer()
    assert {key: value for key, value in found.items() if key not in {"discovery", "guidance"}} == {
        "ok": True,
        "mcpSessionId": "s-1",
        "workspace": "proj-3f9a2c1b",
        "cwd": "/home/ada/proj/src",
        "target": TARGET,
        "online": True,
        "health": {"ok": True, "status": 200, "data": {"ok": True}},
    }


def test_a_stateless_client_gets_no_session_but_must_repeat_the_handle() -> None:
    found = answer(None)
    assert "mcpSessionId" not in found
    first = found["guidance"]["nextSteps"][0]
    assert '"workspace": "proj-3f9a2c1b"' in first
    assert "repeat the handle" in first


def test_guidance_explains_calls_and_schemas() -> None:
    steps = answer()["guidance"]["nextSteps"]
    assert len(steps) == 2
    assert "lmToolsBridge.callTool" in steps[0]
    assert "lm-tools://schema/{name}" in steps[1]


def test_guidance_leads_to_the_language_tools_where_they_are() -> None:
    assert CODE_STEP in answer(tools=("lm_getDiagnostics", "lm_references"))["guidance"]["nextSteps"]
    assert CODE_STEP not in answer(tools=("lm_getDiagnostics",))["guidance"]["nextSteps"]


@pytest.mark.parametrize(
    ("issues", "words"),
    [([DOWN], ["list the tools again"]), ([UNTRUSTED], ["list the tools again", "lmtb trust"])],
)
def test_guidance_covers_each_problem(issues: list[Issue], words: list[str]) -> None:
    steps = next_steps("w", discovery([], issues), bound=True)
    assert len(steps) == 2 + len(words)
    for step, word in zip(steps[2:], words, strict=True):
        assert word in step


def test_the_text_without_tools_and_issues() -> None:
    found = answer(tools=())
    steps = "".join(f"\n  - {step}" for step in found["guidance"]["nextSteps"])
    assert summary(found) == (
        "Workspace handshake summary\n"
        "ok: true\n"
        "workspace: proj-3f9a2c1b\n"
        "cwd: /home/ada/proj/src\n"
        "target: 127.0.0.1:21801\n"
        "workspaceFolders: 1\n"
        "online: true\n"
        "discovery.partial: false\n"
        "bridgedTools: 0\n"
        "tools:\n"
        "  (none)\n"
        "Issues: none\n"
        "Guidance:\n"
        "  nextSteps:" + steps
    )


def test_the_text_with_tools_and_issues() -> None:
    """Empty brackets are omitted, and so are missing details."""
    lines = summary(answer("s-1", UNTRUSTED, DOWN)).splitlines()
    assert lines[7:18] == [
        "discovery.partial: true",
        "bridgedTools: 2",
        "tools:",
        "  - a",
        "  - b",
        "Issues:",
        "- [error][source][SOURCE_UNAVAILABLE] tools are missing",
        "  details: exit code 3",
        "- [warning][trust][TRUST_PENDING][lint] pending until trusted",
        "Guidance:",
        "  nextSteps:",
    ]
