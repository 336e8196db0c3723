"""Rewrites a JSON Schema as the subset that Gemini takes, by named rules, and reports what was changed. Pure.

The rules (`gemini_rules.py`) run from the first to the last on each part of a schema. Calls are still checked
by the original.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lm_tools_bridge.agent.providers.dialects.gemini_rules import RULES, Node, merge
from lm_tools_bridge.agent.providers.dialects.schema_changes import Change, Converted, referred

_MOST_PARTS: Final = 2000
"""Parts of a schema, with all references replaced."""


def converted(schema: Mapping[str, Any]) -> Converted:
    """The schema for Gemini; None for an object without members, whose schema Gemini wants left out."""
    conversion = _Conversion(schema)
    root = conversion.part(schema or {"type": "object"}, "", ())
    if root.get("type") == "object" and not root.get("properties"):
        return Converted(None, tuple(conversion.changes))
    return Converted(root, tuple(conversion.changes))


class _Conversion:
    """The conversion of one schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.changes: list[Change] = []
        self._root = root
        self._parts = 0

    def part(self, schema: object, place: str, through: tuple[str, ...]) -> Node:
        """One part. `through`: the references that led to it."""
        self._parts += 1
        if not isinstance(schema, Mapping) or self._parts > _MOST_PARTS:
            self.note(place, "any-value", "any value is described as text")
            return {"type": "string"}
        node, through = self._inlined(dict(schema), place, through)
        for name, rule in RULES:
            if (text := rule(node)) is not None:
                self.note(place, name, text)
        self._below(node, place, through)
        return node

    def note(self, place: str, rule: str, text: str) -> None:
        self.changes.append(Change(place, rule, text))

    def _inlined(self, node: Node, place: str, through: tuple[str, ...]) -> tuple[Node, tuple[str, ...]]:
        """Rule `inline-references`: replaces a reference by what it refers to, one into itself by its type.

        Parts of `allOf` are merged first, since they often are references (rule `merge-all-of`).
        """
        while "$ref" in node or "allOf" in node:
            if "allOf" in node:
                parts = node.pop("allOf")
                for part in parts if isinstance(parts, list) else ():
                    inner, through = self._inlined(
                        dict(part) if isinstance(part, Mapping) else {}, place, through
                    )
                    merge(node, inner)
                self.note(place, "merge-all-of", "allOf was merged")
                continue
            reference = node.pop("$ref")
            target = referred(self._root, reference)
            if reference in through or not isinstance(target, Mapping):
                kind = target.get("type", "object") if isinstance(target, Mapping) else "object"
                self.note(place, "inline-references", f"$ref {reference} is not followed further")
                return {"type": kind, **node}, through
            through = (*through, reference)
            node = {**target, **node}
            self.note(place, "inline-references", f"$ref {reference} was replaced by its content")
        return node, through

    def _below(self, node: Node, place: str, through: tuple[str, ...]) -> None:
        if "properties" in node:
            node["properties"] = {
                name: self.part(inner, _at(place, f"properties.{name}"), through)
                for name, inner in node["properties"].items()
            }
        if "items" in node:
            node["items"] = self.part(node["items"], _at(place, "items"), through)
        if "anyOf" in node:
            node["anyOf"] = [
                self.part(inner, _at(place, f"anyOf.{index}"), through)
                for index, inner in enumerate(node["anyOf"])
            ]


def _at(place: str, inner: str) -> str:
    return f"{place}.{inner}" if place else inner
