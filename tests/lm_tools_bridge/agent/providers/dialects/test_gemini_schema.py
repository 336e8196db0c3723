"""Gemini takes a subset of JSON Schema: what becomes of the rest, rule by rule, and that each change is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.agent.providers.dialects.gemini_schema import KEPT, RULES, converted
from lm_tools_bridge.agent.providers.factory import schema_changes
from support.examples import examples

TEXT = {"type": "string"}


def of(schema: dict[str, Any]) -> tuple[Any, list[str]]:
    """What a member with this schema becomes, and the rules that changed it."""
    found = converted({"type": "object", "properties": {"x": schema}})
    assert found.schema is not None
    return found.schema["properties"]["x"], [change.rule for change in found.changes]


@pytest.mark.parametrize(
    ("schema", "becomes", "rules"),
    [
        ({"type": "string", "minLength": 1}, {"type": "string", "minLength": 1}, []),
        ({"type": "object", "additionalProperties": False, "properties": {"y": TEXT}}, {"type": "object", "properties": {"y": TEXT}}, ["drop-members"]),
        ({"const": "a"}, {"enum": ["a"], "type": "string"}, ["const-to-enum"]),
        ({"const": 3}, {"type": "integer", "description": "One of: 3."}, ["const-to-enum", "enum-of-texts"]),
        ({"oneOf": [TEXT, {"type": "integer"}]}, {"anyOf": [TEXT, {"type": "integer"}]}, ["one-of-to-any-of"]),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}, ["types-to-any-of"]),
        ({"type": ["string", "integer"]}, {"anyOf": [TEXT, {"type": "integer"}]}, ["types-to-any-of"]),
        ({"anyOf": [TEXT, {"type": "null"}]}, {"type": "string", "nullable": True}, ["null-to-nullable", "single-alternative"]),
        ({"anyOf": [{"$ref": "#/properties/x/z"}, {"type": "null"}], "z": TEXT}, {"anyOf": [TEXT], "nullable": True}, ["null-to-nullable", "drop-members", "inline-references"]),
        ({"type": 3, "properties": [], "anyOf": None, "description": "d"}, {"description": "d", "type": "string"}, ["drop-malformed", "infer-type"]),
        ({"enum": ["a", None]}, {"type": "string", "enum": ["a"], "nullable": True}, ["enum-of-texts"]),
        ({"enum": [1, 2], "description": "Size."}, {"type": "integer", "description": "Size. One of: 1, 2."}, ["enum-of-texts"]),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}, ["exclusive-bounds"]),
        ({"type": "number", "exclusiveMaximum": 1.5}, {"type": "number", "maximum": 1.5}, ["exclusive-bounds"]),
        ({"type": "string", "format": "uri"}, {"type": "string"}, ["formats"]),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}, []),
        ({"type": "array"}, {"type": "array", "items": TEXT}, ["item-schema"]),
        ({"description": "Any."}, {"description": "Any.", "type": "string"}, ["infer-type"]),
        ({"properties": {"y": TEXT}, "required": ["y", "z"]}, {"type": "object", "properties": {"y": TEXT}, "required": ["y"]}, ["infer-type", "known-required"]),
        ({"allOf": [{"type": "object", "properties": {"a": TEXT}}, {"properties": {"b": TEXT}, "required": ["b"]}]}, {"type": "object", "properties": {"b": TEXT, "a": TEXT}, "required": ["b"]}, ["merge-all-of"]),
        ({"type": "object", "properties": {"a": TEXT}, "anyOf": [{"required": ["a"]}, {"properties": {"b": TEXT}}]}, {"anyOf": [{"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, {"type": "object", "properties": {"b": TEXT}}]}, ["members-into-alternatives"]),
    ],
    ids=str,
)  # fmt: skip
def test_each_rule_changes_what_it_names(schema: dict[str, Any], becomes: Any, rules: list[str]) -> None:
    assert of(schema) == (becomes, rules)


@pytest.mark.parametrize("schema", [True, False, "text", 3, None])
def test_what_is_no_schema_is_described_as_text(schema: Any) -> None:
    assert of(schema) == (TEXT, ["any-value"])


def test_references_are_replaced_by_what_they_refer_to() -> None:
    schema = {
        "type": "object",
        "properties": {
            "at": {"$ref": "#/$defs/place", "description": "Where."},
            "to": {"$ref": "#/$defs/place"},
        },
        "$defs": {
            "place": {"type": "object", "properties": {"line": {"$ref": "#/$defs/number"}}},
            "number": {"type": "integer"},
        },
    }
    found = converted(schema)
    place = {"type": "object", "properties": {"line": {"type": "integer"}}}
    assert found.schema == {
        "type": "object",
        "properties": {"at": {**place, "description": "Where."}, "to": place},
    }
    assert [change.rule for change in found.changes if change.place == "properties.at"] == [
        "inline-references"
    ]


def test_a_reference_into_itself_ends() -> None:
    node = {"type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}
    found = converted(
        {"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    )
    assert found.schema is not None
    assert found.schema["properties"]["root"]["properties"]["below"] == {
        "type": "array",
        "items": {"type": "object"},
    }
    assert any("not followed further" in change.text for change in found.changes)


@pytest.mark.parametrize("reference", ["https://example.com/schema", "#/$defs/missing", 3])
def test_a_reference_to_nowhere_is_an_object(reference: Any) -> None:
    assert of({"$ref": reference})[0] == {"type": "object"}


def test_references_that_multiply_do_not_fill_the_memory() -> None:
    defs: dict[str, Any] = {
        f"d{n}": {"type": "object", "properties": {f"p{m}": {"$ref": f"#/$defs/d{n + 1}"} for m in range(8)}}
        for n in range(8)
    }
    found = converted(
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": {**defs, "d8": TEXT}}
    )
    assert str(found.schema).count("'type'") < 20_000


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object"}, {"type": "object", "properties": {}, "required": []}]
)
def test_an_object_without_members_is_left_out(schema: dict[str, Any]) -> None:
    assert converted(schema).schema is None


def test_what_was_changed_can_be_shown() -> None:
    schema = {"type": "object", "properties": {"x": {"const": "a"}}, "additionalProperties": False}
    assert schema_changes("gemini", schema) == (
        "schema: additionalProperties was dropped (drop-members)",
        "properties.x: const became enum (const-to-enum)",
    )
    assert schema_changes("openai", schema) == ()
    assert schema_changes("ollama", schema) == ()
    assert schema_changes("openai", {"anyOf": [schema]}) == (
        "schema: anyOf of the root became members (plain-root)",
    )


def test_the_schema_itself_is_not_changed() -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"const": "a", "allOf": [{"oneOf": [TEXT, {"type": "null"}]}]}},
        "$defs": {},
    }
    before = repr(schema)
    converted(schema)
    assert repr(schema) == before


def test_every_rule_has_a_name_of_its_own() -> None:
    assert len({name for name, _ in RULES}) == len(RULES)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["string", "object", "array", "null", "a", "#/$defs/x"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["type", "properties", "items", "anyOf", "oneOf", "allOf", "enum", "const", "$ref", "$defs", "required", "x", "format", "not", "exclusiveMinimum"]),
        inner,
        max_size=4,
    ),
    max_leaves=20,
)  # fmt: skip


def parts(node: Any) -> list[Any]:
    """All parts of a converted schema."""
    inner = [*node.get("properties", {}).values(), *node.get("anyOf", ())]
    inner += [node["items"]] if "items" in node else []
    return [node, *(one for part in inner for one in parts(part))]


@examples(300)
@given(
    st.dictionaries(
        st.sampled_from(
            ["type", "properties", "anyOf", "oneOf", "allOf", "$ref", "$defs", "items", "enum", "required"]
        ),
        JSON,
        max_size=5,
    )
)
def test_any_json_becomes_a_schema_that_gemini_has(schema: dict[str, Any]) -> None:
    found = converted(schema).schema
    for part in parts(found) if found is not None else ():
        assert set(part) <= KEPT
        assert isinstance(part.get("type", ""), str)
        assert "type" in part or "anyOf" in part
        assert all(isinstance(one, str) for one in part.get("enum", ()))
