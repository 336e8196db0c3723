"""Tests of tool definitions and results converted for session clients (MCP up to 2025-11-25)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import jsonrpc
from manager.routing.json import legacy_result

OBJECT = '{"type":"object"}'


def definition(text: str) -> str:
    return jsonrpc.bytes_of(legacy_result.convert_definition(msgspec.Raw(text.encode()))).decode()


@pytest.mark.parametrize(
    "tool",
    [
        f'{{ "name":"a", "x": 1.10, "inputSchema": {OBJECT} }}',
        f'{{"name":"a","inputSchema":{OBJECT},"outputSchema": {{"properties":{{"a":{{}}}},"type":"object"}}}}',
        '{"name":"a","inputSchema":{"type":"object","properties":{"a": {"type":"string"}, "b":{}}}}',
        '{"name":"a"}',
        "5",
        "[ ]",
    ],
)
def test_a_definition_that_older_revisions_allow_is_unchanged(tool: str) -> None:
    raw = msgspec.Raw(tool.encode())
    assert legacy_result.convert_definition(raw) is raw


@pytest.mark.parametrize(
    "schema",
    ['{"type":"array"}', "{}", "true", '{"type":["object","null"]}', '{"anyOf":[{"type":"object"}]}',
     '{"type":"object","properties":{"a":true}}'],
)  # fmt: skip
def test_an_output_schema_of_another_type_than_object_is_removed(schema: str) -> None:
    tool = f'{{"name":"a","outputSchema":{schema},"inputSchema":{OBJECT},"x":1.10}}'
    assert definition(tool) == f'{{"name":"a","inputSchema":{OBJECT},"x":1.10}}'


def test_a_missing_input_schema_is_replaced_by_an_equivalent_one() -> None:
    tool = '{"name":"a","inputSchema":{"properties":{"a":true,"b":false,"c":{ }},"type":"object"}}'
    expected = '{"name":"a","inputSchema":{"properties":{"a":{},"b":{"not":{}},"c":{ }},"type":"object"}}'
    assert definition(tool) == expected


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ('{"content":[],"structuredContent":[1.10]}', '{"content":[{"type":"text","text":"[1.10]"}]}'),
        ('{"structuredContent":"é"}', '{"content":[{"type":"text","text":"\\"é\\""}]}'),
        ('{"content":[{"a":1}],"structuredContent":7,"x":1}', '{"content":[{"a":1}],"x":1}'),
        ('{"content":[ ],"structuredContent":null}', '{"content":[]}'),
    ],
)
def test_structured_content_other_than_an_object_becomes_missing_text(given: str, fits: str) -> None:
    members = legacy_result.convert_tool_result(jsonrpc.members_of(given.encode()))
    assert json.loads(jsonrpc.dumps(members)) == json.loads(fits)


@pytest.mark.parametrize("given", [{"content": []}, {"content": [], "structuredContent": {"a": 1}}])
def test_other_results_are_unchanged(given: dict[str, Any]) -> None:
    members = jsonrpc.members_of(json.dumps(given).encode())
    assert legacy_result.convert_tool_result(members) is members
