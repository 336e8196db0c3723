"""Tests of the one-line input hint after tool descriptions."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.protocol.input_hint import describe, input_hint, shape, type_word

EXAMPLE = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "isRegexp": {"type": "boolean"},
        "mode": {"enum": ["a", "b"]},
        "opt": {"type": ["string", "null"]},
        "obj": {"properties": {"x": {}}},
        "arr": {"items": {"type": "string"}},
        "any": {},
    },
    "required": ["query", "isRegexp"],
}
ONE = {"type": "object", "properties": {"a": {"type": "string"}}}


def test_hint_lists_every_property_with_its_type_word() -> None:
    assert input_hint(EXAMPLE) == (
        "Input: { query: string, isRegexp: boolean, mode?: enum, opt?: string|null, obj?: object, "
        "arr?: array, any?: unknown }."
    )


def test_shape_is_the_hint_without_its_full_stop() -> None:
    assert shape(ONE) == "Input: { a?: string }"


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"type": "string", "enum": ["a"]}, "string"),
        ({"type": ["integer", "null"], "enum": [1]}, "integer|null"),
        ({"enum": [1], "properties": {}}, "enum"),
        ({"enum": "no list", "properties": {}}, "object"),
        ({"properties": {}, "items": {}}, "object"),
        ({"items": {}}, "array"),
        ({"anyOf": [{"type": "string"}]}, "unknown"),
        (True, "unknown"),
    ],
)
def test_first_rule_that_applies_names_the_type(schema: object, word: str) -> None:
    assert type_word(schema) == word


@pytest.mark.parametrize(
    "schema",
    [{"type": "object"}, {"type": "object", "properties": {}}, {"properties": ["a"]}],
)
def test_schema_without_properties_has_no_hint(schema: dict[str, Any]) -> None:
    assert input_hint(schema) is None


@pytest.mark.parametrize(
    ("description", "schema", "joined"),
    [
        ("  Finds files ", ONE, "Finds files. Input: { a?: string }."),
        ("Finds files.", ONE, "Finds files. Input: { a?: string }."),
        (None, ONE, "Input: { a?: string }."),
        ("  ", ONE, "Input: { a?: string }."),
        (" Finds files ", {}, "Finds files"),
        (None, {}, ""),
        (" Has one. Input: { b: string }", ONE, " Has one. Input: { b: string }"),
    ],
)
def test_description_and_hint_are_joined_as_sentences(
    description: str | None, schema: dict[str, Any], joined: str
) -> None:
    assert describe(description, schema) == joined
