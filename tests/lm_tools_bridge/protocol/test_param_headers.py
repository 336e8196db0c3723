"""Tests of arguments repeated as headers: written and checked by the same rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.protocol.param_headers import Mirrored, annotated, mirror
from workspace_server.calls.call import mirror_mismatch

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "inner": {"type": "object", "properties": {"id": {"type": "string", "x-mcp-header": "Id"}}},
        "list": {"type": "array", "x-mcp-header": "List"},
        "plain": {"type": "string"},
    },
}


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({}, {}),
        ({"region": None, "plain": "x", "list": [1]}, {}),
        ({"region": "eu west"}, {"Mcp-Param-Region": "eu west"}),
        ({"region": ""}, {"Mcp-Param-Region": ""}),
        ({"region": "Süd"}, {"Mcp-Param-Region": "=?base64?U8O8ZA==?="}),
        ({"region": "a\r\nb"}, {"Mcp-Param-Region": "=?base64?YQ0KYg==?="}),
        ({"count": 42.0, "dry": False}, {"Mcp-Param-Count": "42", "Mcp-Param-Dry": "false"}),
        ({"inner": {"id": "7"}}, {"Mcp-Param-Id": "7"}),
        ({"inner": "no object", "region": {"no": "text"}}, {}),
        ([], {}),
    ],
)
def test_annotated_arguments_become_headers(arguments: Any, sent: dict[str, str]) -> None:
    """The values are encoded like all headers of the protocol."""
    assert mirror(annotated(SCHEMA), arguments) == sent


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "region": st.text(st.characters(exclude_categories=["Cs"])),
            "count": st.integers(-(2**53) + 1, 2**53 - 1),
            "dry": st.booleans(),
            "inner": st.fixed_dictionaries({"id": st.text(st.characters(exclude_categories=["Cs"]))}),
        },
    )
)
def test_written_headers_pass_the_check(arguments: dict[str, Any]) -> None:
    """The manager writes them, the workspace server checks them."""
    assert mirror_mismatch(mirror(annotated(SCHEMA), arguments), annotated(SCHEMA), arguments) is None


@pytest.mark.parametrize("schema", [None, [], {}, {"properties": []}, {"properties": {"a": 1}}])
def test_an_invalid_schema_has_no_annotations(schema: Any) -> None:
    assert list(annotated(schema)) == []


def test_annotations_below_schema_combinations_are_ignored() -> None:
    """Only schemas reached through `properties` count (MCP 2026-07-28, Transports)."""
    hidden = {"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]}
    assert list(annotated({"properties": {"b": hidden}})) == []
    assert list(annotated(hidden)) == []
    assert next(annotated(SCHEMA)) == Mirrored(("region",), "Mcp-Param-Region", "string")
