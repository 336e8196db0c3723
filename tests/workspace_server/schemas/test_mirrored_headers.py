"""Mirrored headers are compared with the arguments."""

from __future__ import annotations

from typing import Any

import pytest
from multidict import CIMultiDict

from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.param_headers import annotated
from workspace_server.calls.call import mirror_mismatch

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "inner": {"type": "object", "properties": {"id": {"type": "string", "x-mcp-header": "Id"}}},
        "plain": {"type": "string"},
    },
}


@pytest.mark.parametrize(
    ("header", "arguments"),
    [
        ({}, {}),
        ({}, {"region": None, "plain": "x"}),
        ({"mcp-param-region": "eu"}, {"region": "eu"}),
        ({"Mcp-Param-Region": headers.encode_value("über")}, {"region": "über"}),
        ({"Mcp-Param-Count": "42"}, {"count": 42.0}),
        ({"Mcp-Param-Count": "42.0"}, {"count": 42}),
        ({"Mcp-Param-Dry": "false"}, {"dry": False}),
        ({"Mcp-Param-Id": "7"}, {"inner": {"id": "7"}}),
        ({"Mcp-Param-Unknown": "7"}, {}),
        ({}, {"region": {"not": "a string"}}),
    ],
)
def test_headers_that_repeat_the_arguments_pass(header: dict[str, str], arguments: dict[str, Any]) -> None:
    assert mirror_mismatch(CIMultiDict(header), annotated(SCHEMA), arguments) is None


@pytest.mark.parametrize(
    ("header", "arguments"),
    [
        ({}, {"region": "eu"}),
        ({"Mcp-Param-Region": "eu"}, {}),
        ({"Mcp-Param-Region": "eu"}, {"region": "us"}),
        ({"Mcp-Param-Region": "=?base64?!!?="}, {"region": "eu"}),
        ({"Mcp-Param-Count": "43"}, {"count": 42}),
        ({"Mcp-Param-Count": "4e1"}, {"count": 40}),
        ({"Mcp-Param-Count": "9" * 5000}, {"count": 40}),
        ({"Mcp-Param-Dry": "True"}, {"dry": True}),
        ({"Mcp-Param-Id": "8"}, {"inner": {"id": "7"}}),
    ],
)
def test_headers_that_differ_from_the_arguments_are_found(
    header: dict[str, str], arguments: dict[str, Any]
) -> None:
    assert mirror_mismatch(CIMultiDict(header), annotated(SCHEMA), arguments) is not None
