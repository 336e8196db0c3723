"""Summarises a tool's input schema for models in one line.

Example: `Input: { query: string, isRegexp?: boolean }.` The line is part of the tool's description. Nested
members, enum values and limits are left to the JSON Schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MARK = "Input: {"
"""Marks a description that already has a hint."""


def type_word(schema: object) -> str:
    """The type of a property schema in one word; `unknown` if none applies."""
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
    """`Input: { a: T, b?: T }` for an object schema; None if it has no properties."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return None
    required = schema.get("required")
    needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    members = (f"{name}{'' if name in needed else '?'}: {type_word(sub)}" for name, sub in properties.items())
    return f"Input: {{ {', '.join(members)} }}"


def input_hint(schema: Mapping[str, Any]) -> str | None:
    """The hint with a full stop; None if the schema has no properties."""
    line = shape(schema)
    return None if line is None else f"{line}."


def describe(description: str | None, schema: Mapping[str, Any]) -> str:
    """Append the hint of the schema to a description. A description that already has a hint stays unchanged.

    Returns:
        An empty string if there is neither a description nor a hint.
    """
    if description is not None and MARK in description:
        return description
    text = (description or "").strip()
    hint = input_hint(schema)
    if hint is None or not text:
        return hint or text
    return f"{text}{'' if text.endswith('.') else '.'} {hint}"
