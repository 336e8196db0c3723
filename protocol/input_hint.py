"""One line that tells a model what a tool takes: `Input: { query: string, isRegexp?: boolean }.`

It is a reading aid inside a description, deliberately not a schema language: nested members, enum values and
limits are left to the JSON Schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MARK = "Input: {"
"""A description that contains this already has a hint."""


def type_word(schema: object) -> str:
    """The one word a property schema is summed up in, `unknown` where nothing applies."""
    if not isinstance(schema, Mapping):
        return "unknown"
    declared = schema.get("type")
    if isinstance(declared, str):
        return declared
    if isinstance(declared, list) and declared:
        return "|".join(str(word) for word in declared)
    if isinstance(schema.get("enum"), list):
        return "enum"
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema else "unknown"


def shape(schema: Mapping[str, Any]) -> str | None:
    """`Input: { a: T, b?: T }` of an object schema, or None if it names no properties."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return None
    required = schema.get("required")
    needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    members = (f"{name}{'' if name in needed else '?'}: {type_word(sub)}" for name, sub in properties.items())
    return f"Input: {{ {', '.join(members)} }}"


def input_hint(schema: Mapping[str, Any]) -> str | None:
    """The hint as a sentence with its full stop, or None if there is nothing to say."""
    line = shape(schema)
    return None if line is None else f"{line}."


def describe(description: str | None, schema: Mapping[str, Any]) -> str:
    """The description with the hint of its schema behind it, an empty string if there is neither.

    A description that carries a hint already is returned unchanged; without a hint to add
    it is only trimmed.
    """
    if description is not None and MARK in description:
        return description
    text = (description or "").strip()
    hint = input_hint(schema)
    if hint is None or not text:
        return hint or text
    return f"{text}{'' if text.endswith('.') else '.'} {hint}"
