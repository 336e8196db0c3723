"""What clients cannot compile is taken out of a tool's schemas; what they can compile stays as it is."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from workspace_server.schemas import readable_schemas
from workspace_server.schemas.readable_schemas import Unusable, output_problem, readable_input

D04, D07 = "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"
D19 = "https://json-schema.org/draft/2019-09/schema"


def schema(about: Any = None, **members: Any) -> dict[str, Any]:
    """A schema with the property `a`, and other members of the root."""
    return {"type": "object", "properties": {} if about is None else {"a": about}, **members}


READABLE = [
    schema(
        {"$ref": "#/$defs/N"}, **{"$defs": {"N": {"properties": {"kids": {"items": {"$ref": "#/$defs/N"}}}}}}
    ),
    schema({"$ref": "#"}),
    schema({"$ref": "#n"}, **{"$defs": {"N": {"$anchor": "n"}}}),
    schema({"$ref": "item"}, **{"$id": "https://h/s", "$defs": {"I": {"$id": "item"}}}),
    schema({"$ref": "#/$defs/a%20b"}, **{"$defs": {"a b": True}}),
    schema({"$ref": "#/$defs/a~1b"}, **{"$defs": {"a/b": {}}}),
    schema({"$ref": "#/definitions/X"}, definitions={"X": {"const": {"$ref": "#/nowhere"}}}),
    schema({"items": [{"type": "string"}]}, **{"$schema": D07}),
    schema({"items": [{"type": "string"}]}, **{"$schema": D19}),
    schema({"$recursiveRef": "#"}, **{"$schema": D19}),
    schema({"pattern": r"^(?<k>\p{L}+)-(?<=-)[^]$", "type": "string", "nullable": True}),
    {"type": "object", "properties": {"id": {"type": "string"}, "$ref": {"type": "string"}, "enum": {}}},
]
"""Whole documents that the official TypeScript client compiles with both of its engines."""


@pytest.mark.parametrize("readable", READABLE)
def test_what_clients_can_compile_stays(readable: dict[str, Any]) -> None:
    assert output_problem(readable) is None
    found = readable_input(readable)
    assert (found.schema, found.removed) == (readable, ())


@pytest.mark.parametrize(
    ("about", "members"),
    [
        ({"$ref": "#/$defs/X"}, {}),
        ({"$ref": "#/definitions/X"}, {"$defs": {"X": {}}}),
        ({"$ref": "https://example.com/x.json"}, {}),
        ({"$ref": "Range"}, {}),
        ({"$ref": "#nowhere"}, {}),
        ({"$ref": "#/$defs/%"}, {"$defs": {"%": {}}}),
        ({"$ref": 5}, {}),
        ({"$ref": D07}, {}),
        ({"$ref": "#/properties/a"}, {}),
        ({"$ref": "#/$defs/A"}, {"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}),
        ({"pattern": "("}, {}),
        ({"pattern": r"[\w-.]"}, {}),
        ({"pattern": "(?i)a"}, {}),
        ({}, {"patternProperties": {r"[\w-.]": {}}}),
        ({"type": "any"}, {}),
        ({"type": None}, {}),
        ({"required": True}, {}),
        ({"required": None}, {}),
        ({"enum": []}, {}),
        ({"enum": {}}, {}),
        ({"nullable": True, "anyOf": [{"type": "string"}]}, {}),
        ({"type": ["null", "string"], "nullable": False}, {}),
        ({"exclusiveMinimum": True, "minimum": 0}, {}),
        ({"items": [{}]}, {}),
        ({"minLength": "1"}, {}),
        ({"anyOf": None}, {}),
        ({"properties": None}, {}),
        (None, {"additionalProperties": None}),
        (None, {"dependentRequired": {"a": "b"}}),
        ({"formatMinimum": "2020"}, {}),
        ({"$ref": "#/$defs/U"}, {"$defs": {"U": {"id": "User"}}}),
        ({"$anchor": "1 x"}, {}),
        ({"$anchor": "x", "not": {"$anchor": "x"}}, {}),
        ({}, {"$schema": "https://example.com/d"}),
        ({}, {"$schema": D04}),
        ({}, {"$id": 5}),
    ],
)
def test_what_a_client_refuses_to_compile_is_named(about: Any, members: dict[str, Any]) -> None:
    """One of these in an output schema hides all tools from clients, or lets their calls fail."""
    broken = schema(about, **members)
    before = copy.deepcopy(broken)
    assert output_problem(broken)
    assert broken == before


@pytest.mark.parametrize(
    ("given", "kept", "removed"),
    [
        (schema({"$ref": "#/$defs/X", "title": "T"}), schema({"title": "T"}), "properties.a.$ref"),
        (schema({"pattern": "(", "type": "string"}), schema({"type": "string"}), "properties.a.pattern"),
        (schema({"type": "int"}), schema({}), "properties.a.type"),
        (schema({"required": True}), schema({}), "properties.a.required"),
        (schema(5), schema({}), "properties.a"),
        (schema(None, required=None), schema(), "required"),
        ({"type": "object", "properties": None}, {"type": "object"}, "properties"),
        (schema({"allOf": [{"minimum": "x"}]}), schema({"allOf": [{}]}), "properties.a.allOf.0.minimum"),
        (schema({"enum": 5, "items": 5}), schema({}), "properties.a.items"),
        (schema(None, patternProperties={"(": {}}), schema(None, patternProperties={}), "patternProperties.("),
        (schema({"exclusiveMinimum": 0}, **{"$schema": D04}), schema({}, **{"$schema": D04}), "properties.a.exclusiveMinimum"),
    ],
)  # fmt: skip
def test_broken_members_of_arguments_are_taken_out_alone(given: Any, kept: Any, removed: str) -> None:
    before = copy.deepcopy(given)
    found = readable_input(given)
    assert found.schema == kept
    assert f"inputSchema.{removed}" in found.removed
    assert given == before, "the server's own definition is not changed"


@pytest.mark.parametrize("given", [None, True, [], "x", {"type": "string"}, {"type": ["array", "null"]}])
def test_a_schema_of_something_else_becomes_one_of_any_object(given: Any) -> None:
    found = readable_input(given)
    assert (found.schema, found.removed) == ({"type": "object"}, ("inputSchema",))
    assert found.unchecked


def test_a_missing_type_of_the_root_is_added_and_the_rest_is_checked() -> None:
    found = readable_input({"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "type": ["object", "null"]})
    assert (found.schema["type"], found.removed, found.unchecked) == ("object", ("inputSchema.type",), None)


@pytest.mark.parametrize(
    "given",
    [
        schema({"items": {"$ref": "#/$defs/List<Item>"}}, **{"$defs": {"List<Item>": {}}}),
        schema({"pattern": r"^[\w-.]+$"}),
        schema({"x": 1}, **{"$schema": "https://example.com/d"}),
        schema({"items": [{}]}, **{"$schema": "https://example.com/d"}),
    ],
)
def test_what_cannot_be_judged_is_passed_on_unchecked(given: dict[str, Any]) -> None:
    found = readable_input(given)
    assert (found.schema, found.removed) == (given, ())
    assert found.unchecked


def test_a_tool_that_mcp_lets_no_client_see_is_refused() -> None:
    with pytest.raises(Unusable, match="x-mcp-header"):
        readable_input(schema({"type": "array", "x-mcp-header": "A"}))


def test_a_broken_schema_that_is_too_deep_to_be_mended_becomes_one_of_any_object() -> None:
    deep: Any = {"type": "string"}
    for _ in range(900):
        deep = {"properties": {"a": deep}}
    found = readable_input(schema({"pattern": "("}, **deep))
    assert (found.schema, found.unchecked is None) == ({"type": "object"}, False)


def test_a_long_chain_of_references_is_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    follow = readable_schemas._target

    def counted(*arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        return follow(*arguments)

    monkeypatch.setattr(readable_schemas, "_target", counted)
    chain = {f"p{number}": {"$ref": f"#/properties/p{number + 1}"} for number in range(200)}
    assert output_problem({"type": "object", "properties": {**chain, "p200": {"type": "string"}}}) is None
    assert steps == len(chain)
