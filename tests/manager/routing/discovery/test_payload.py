"""Tests of the discovery payload: entries, issues, hints and their order."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.protocol.issues import Issue, issues_from
from manager.routing.discovery.own_tools import CALL_TOOL
from manager.routing.discovery.payload import (
    bridged_tool,
    discovery,
    issue,
    read_schema,
    schema_in_list,
    usable_entries,
)

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
    assert issue(code, "t", "said upstream").as_json() == {
        "level": level,
        "category": category,
        "code": code,
        "message": message,
        "toolName": "t",
        "details": "said upstream",
    }


def test_unset_members_of_an_issue_are_omitted() -> None:
    assert set(issue("TOOLS_LIST_FETCH_FAILED").as_json()) == {"level", "category", "code", "message"}


def test_an_unknown_code_raises_an_exception() -> None:
    with pytest.raises(KeyError):
        issue("SOMETHING_ELSE")


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
    found = discovery([{"name": name, "description": ""} for name in names], shuffled)
    assert [tool["name"] for tool in found["bridgedTools"]] == ["_", "a", "B", "b", "Z", "é"]
    expected = sorted(
        issues, key=lambda one: (one.level == "warning", one.category, one.tool_name or "", one.code)
    )
    assert found["issues"] == [one.as_json() for one in expected]
    assert found["partial"] is any(one.level == "error" for one in issues)


def test_call_tool_and_the_two_templates_are_always_included() -> None:
    found = discovery([], [])
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
