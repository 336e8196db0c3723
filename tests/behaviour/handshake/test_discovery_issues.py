"""Problems of a workspace's lists are reported as issues and hide no valid tool."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol import names
from support.clients.raw_clients import SessionClient
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_workspace_server import (
    Answerer,
    broken_off,
    error,
    event,
    fixed,
    never,
    result,
    stream,
)

MESSAGES = {
    "TOOLS_LIST_FETCH_FAILED": "tools/list could not be fetched",
    "TOOLS_LIST_INVALID_RESULT": "tools/list gave no usable result",
    "TOOL_ENTRY_INVALID": "an entry of tools/list was dropped",
    "TOOL_NAME_DUPLICATE": "duplicate tool name dropped",
    "TOOL_NAME_RESERVED": "reserved tool name dropped",
    "SCHEMA_READ_REQUEST_FAILED": "schema could not be fetched",
    "SCHEMA_READ_RPC_ERROR": "schema read was refused",
    "SCHEMA_CONTENT_MISSING": "schema resource is empty",
    "SCHEMA_CONTENT_INVALID": "schema resource is malformed",
    "SCHEMA_TEXT_MISSING": "schema resource has no text",
    "SCHEMA_JSON_PARSE_FAILED": "schema text is not JSON",
    "SCHEMA_JSON_INVALID": "schema text is no object",
    "SCHEMA_INPUT_MISSING": "no usable inputSchema",
    "SCHEMA_READ_UNEXPECTED_ERROR": "schema read failed unexpectedly",
}
GOOD = {"name": "good", "inputSchema": {"properties": {"a": {"type": "string"}}}}
SHOWN = {"name": "good", "description": "Input: { a?: string }."}


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[RegisteredSetup]:
    async with registered_setup(tmp_path.resolve(), call_timeout_s=0.5) as running:
        yield running


async def discovery(setup: RegisteredSetup) -> dict[str, Any]:
    payload = (await setup.modern(pure=False).handshake(setup.upstream.root)).payload
    assert payload["ok"] is True
    steps = " ".join(payload["guidance"]["nextSteps"])
    found: dict[str, Any] = payload["discovery"]
    assert ("list the tools again" in steps) == bool(found["issues"])
    return found


@pytest.mark.parametrize(
    ("listing", "code"),
    [
        (fixed(b"<html>", 502, "text/html"), "TOOLS_LIST_FETCH_FAILED"),
        (fixed(b"not json"), "TOOLS_LIST_FETCH_FAILED"),
        (broken_off(b'{"jsonrpc', 100), "TOOLS_LIST_FETCH_FAILED"),
        (stream(event({"jsonrpc": "2.0", "method": "notifications/x"})), "TOOLS_LIST_FETCH_FAILED"),
        (never, "TOOLS_LIST_FETCH_FAILED"),
        (error(-32000, "the list is closed"), "TOOLS_LIST_INVALID_RESULT"),
        (result(5), "TOOLS_LIST_INVALID_RESULT"),
        (result(None), "TOOLS_LIST_INVALID_RESULT"),
        (result({}), "TOOLS_LIST_INVALID_RESULT"),
        (result({"tools": {}}), "TOOLS_LIST_INVALID_RESULT"),
        (result({"tools": None}), "TOOLS_LIST_INVALID_RESULT"),
    ],
)
async def test_a_failed_list_makes_discovery_partial(
    setup: RegisteredSetup, listing: Answerer, code: str
) -> None:
    """The handshake itself succeeds."""
    setup.upstream.answers[names.TOOLS_LIST] = listing
    found = await discovery(setup)
    assert found["partial"] is True
    assert found["bridgedTools"] == []
    (issue,) = found["issues"]
    assert isinstance(issue.pop("details"), str)
    assert issue == {"level": "error", "category": "tools/list", "code": code, "message": MESSAGES[code]}


async def test_the_servers_error_message_becomes_details(setup: RegisteredSetup) -> None:
    setup.upstream.answers[names.TOOLS_LIST] = error(-32000, "the list is closed")
    assert (await discovery(setup))["issues"][0]["details"] == "the list is closed"


@pytest.mark.parametrize(
    ("entry", "code", "tool"),
    [
        (5, "TOOL_ENTRY_INVALID", None),
        (None, "TOOL_ENTRY_INVALID", None),
        ({}, "TOOL_ENTRY_INVALID", None),
        ({"name": " "}, "TOOL_ENTRY_INVALID", None),
        ({"name": 5}, "TOOL_ENTRY_INVALID", None),
        ({"name": " good ", "description": "another"}, "TOOL_NAME_DUPLICATE", "good"),
        ({"name": "lmToolsBridge.callTool"}, "TOOL_NAME_RESERVED", "lmToolsBridge.callTool"),
        ({"name": "callTool"}, "TOOL_NAME_RESERVED", "callTool"),
        ({"name": " requestWorkspaceMCPServer"}, "TOOL_NAME_RESERVED", "requestWorkspaceMCPServer"),
    ],
)
async def test_an_invalid_tool_is_dropped_everywhere(
    setup: RegisteredSetup, entry: Any, code: str, tool: str | None
) -> None:
    """The first of a name stays."""
    setup.upstream.tools = [GOOD, entry]
    found = await discovery(setup)
    assert found["bridgedTools"] == [SHOWN]
    assert found["partial"] is False
    expected = {"level": "warning", "category": "tools/list", "code": code, "message": MESSAGES[code]}
    assert found["issues"] == [expected | ({} if tool is None else {"toolName": tool})]
    client = await setup.legacy()
    listed = (await client.ask(names.TOOLS_LIST)).result["tools"]
    assert [one["name"] for one in listed] == [names.HANDSHAKE, names.CALL_TOOL, "good"]
    assert listed[2] == GOOD


def text(value: str) -> Answerer:
    return result({"contents": [{"uri": "x", "text": value}]})


@pytest.mark.parametrize(
    ("reading", "code"),
    [
        (fixed(b"<html>", 500, "text/html"), "SCHEMA_READ_REQUEST_FAILED"),
        (broken_off(b"{", 100), "SCHEMA_READ_REQUEST_FAILED"),
        (never, "SCHEMA_READ_REQUEST_FAILED"),
        (error(-32602, "no such schema"), "SCHEMA_READ_RPC_ERROR"),
        (result({}), "SCHEMA_CONTENT_MISSING"),
        (result({"contents": []}), "SCHEMA_CONTENT_MISSING"),
        (result({"contents": ["x"]}), "SCHEMA_CONTENT_INVALID"),
        (result({"contents": [{"blob": "eA=="}]}), "SCHEMA_TEXT_MISSING"),
        (text("{nope"), "SCHEMA_JSON_PARSE_FAILED"),
        (text("[1]"), "SCHEMA_JSON_INVALID"),
        (text('{"name":"bare"}'), "SCHEMA_INPUT_MISSING"),
        (text('{"inputSchema":[]}'), "SCHEMA_INPUT_MISSING"),
        (result(b'{"contents":[1e999]}'), "SCHEMA_READ_UNEXPECTED_ERROR"),
    ],
)
async def test_an_unreadable_schema_causes_a_warning_and_no_hint(
    setup: RegisteredSetup, reading: Answerer, code: str
) -> None:
    """The tool itself stays, and so do the others."""
    setup.upstream.tools = [{"name": "bare", "description": "Bare."}, GOOD]
    setup.upstream.answers[names.RESOURCES_READ] = reading
    found = await discovery(setup)
    assert found["bridgedTools"] == [{"name": "bare", "description": "Bare."}, SHOWN]
    assert found["partial"] is False
    (issue,) = found["issues"]
    details = issue.pop("details", None)
    assert details == "no such schema" if code == "SCHEMA_READ_RPC_ERROR" else details != ""
    assert issue == {
        "level": "warning",
        "category": "schema",
        "code": code,
        "message": MESSAGES[code],
        "toolName": "bare",
    }


def issue_of(level: str, category: str, code: str, **more: str) -> dict[str, str]:
    return {"level": level, "category": category, "code": code, "message": f"says {code}", **more}


async def test_issues_of_the_workspaces_sources_keep_their_order(setup: RegisteredSetup) -> None:
    """Errors first, then category, tool and code; what is malformed is left out."""
    trust = issue_of("warning", "trust", "TRUST_PENDING", details="lmtb trust /p")
    down = issue_of("error", "source", "SOURCE_UNAVAILABLE", details="git")
    clash = issue_of("warning", "names", "TOOL_NAME_CLASH", toolName="b")
    told = [trust, clash, {**clash, "toolName": "a"}, down, {"level": "loud"}, {"level": ["error"]}, 5, None]
    setup.upstream.answers[names.TOOLS_LIST] = result({"tools": [GOOD], "_meta": {names.META_ISSUES: told}})
    payload = (await setup.modern(pure=False).handshake(setup.upstream.root)).payload
    assert payload["discovery"]["issues"] == [down, {**clash, "toolName": "a"}, clash, trust]
    assert payload["discovery"]["partial"] is True
    assert any("lmtb trust" in step for step in payload["guidance"]["nextSteps"])


async def listed(client: SessionClient) -> tuple[list[str], list[str]]:
    """Names of the tools, and codes of the issues, that a list shows."""
    found = (await client.ask(names.TOOLS_LIST)).result
    issues = found.get("_meta", {}).get(names.META_ISSUES, [])
    return [one["name"] for one in found["tools"]], [one["code"] for one in issues]


async def test_a_later_failure_shows_the_last_list_with_an_issue(setup: RegisteredSetup) -> None:
    """Tools never vanish silently."""
    own = [names.HANDSHAKE, names.CALL_TOOL]
    setup.upstream.tools = [GOOD]
    client = await setup.legacy()
    assert await listed(client) == ([*own, "good"], [])
    setup.upstream.answers[names.TOOLS_LIST] = error(-32603, "out of order")
    shown, issues = await listed(client)
    assert shown == [*own, "good"]
    assert len(issues) == 1
    found = await discovery(setup)
    assert found["bridgedTools"] == [SHOWN]
    assert (found["partial"], len(found["issues"])) == (True, 1)
    del setup.upstream.answers[names.TOOLS_LIST]
    assert await listed(client) == ([*own, "good"], [])


async def test_a_first_failure_shows_the_managers_tools_with_an_issue(setup: RegisteredSetup) -> None:
    """At `/mcp` as an issue with the reason, at the workspace's URL as an error."""
    setup.upstream.answers[names.TOOLS_LIST] = fixed(b"<html>", 502, "text/html")
    client = await setup.legacy()
    shown, issues = await listed(client)
    assert shown == [names.HANDSHAKE, names.CALL_TOOL]
    assert issues == ["TOOLS_LIST_FETCH_FAILED"]
    pure = await setup.modern().ask(names.TOOLS_LIST)
    assert pure.error["code"] == -32603
    assert json.dumps(pure.error["data"]["details"]) == '{"httpStatus": 502}'


async def test_a_variable_that_the_client_did_not_expand_is_an_issue_beside_those_of_the_workspace(
    setup: RegisteredSetup,
) -> None:
    theirs = issue_of("error", "source", "SOURCE_UNAVAILABLE", details="git")
    setup.upstream.answers[names.TOOLS_LIST] = result(
        {"tools": [GOOD], "_meta": {names.META_ISSUES: [theirs], "x/own": 7}}
    )
    client = await setup.legacy()
    client.url += "?cwd=%24%7BPWD%7D"
    found = (await client.ask(names.TOOLS_LIST)).result
    assert [one["name"] for one in found["tools"]] == [names.HANDSHAKE, names.CALL_TOOL, "good"]
    assert [one["code"] for one in found["_meta"][names.META_ISSUES]] == [
        "VARIABLE_NOT_EXPANDED",
        "SOURCE_UNAVAILABLE",
    ]
    assert found["_meta"]["x/own"] == 7
