"""Rewrites a JSON Schema as the subset that Gemini takes, by named rules, and reports what was changed. Pure.

The rules run from the first to the last on each part of a schema. Calls are still checked
by the original.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from lm_tools_bridge.agent.providers.dialects.schema_changes import Change, Converted, referred

Node = dict[str, Any]
KEPT: Final = frozenset({
    "type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems",
    "properties", "required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern",
    "anyOf", "default", "minimum", "maximum", "propertyOrdering", "example",
})  # fmt: skip
"""The members that Gemini's schema has."""
_TYPES: Final = ("object", "array", "string", "integer", "number", "boolean")
_FORMATS: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset({"enum", "date-time"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}
_NULL: Final[Node] = {"type": "null"}


def merge(node: Node, part: Node) -> None:
    """Add what the part has and the node has not; members and required names are united."""
    for name, value in part.items():
        mine = node.get(name)
        if name == "properties" and isinstance(mine, Mapping) and isinstance(value, Mapping):
            node[name] = {**value, **mine}
        elif name == "required" and isinstance(mine, list) and isinstance(value, list):
            node[name] = [*mine, *(item for item in value if item not in mine)]
        else:
            node.setdefault(name, value)


def _drop_malformed(node: Node) -> str | None:
    forms = {
        "properties": Mapping, "anyOf": list, "oneOf": list, "type": str | list, "enum": list,
        "description": str, "required": list, "format": str,
    }  # fmt: skip
    dropped = [name for name, form in forms.items() if name in node and not isinstance(node[name], form)]
    for name in dropped:
        del node[name]
    return f"{', '.join(dropped)} of another form than JSON Schema has was dropped" if dropped else None


def _const_to_enum(node: Node) -> str | None:
    if "const" not in node:
        return None
    node["enum"] = [node.pop("const")]
    return "const became enum"


def _one_of_to_any_of(node: Node) -> str | None:
    alternatives = node.pop("oneOf", None)
    if alternatives is None:
        return None
    node.setdefault("anyOf", alternatives)
    return "oneOf is kept as anyOf"


def _types_to_any_of(node: Node) -> str | None:
    """Several types are alternatives; `null` among them is left to the rule for it."""
    types = node.get("type")
    if not isinstance(types, list):
        return None
    known_types = [type_name for type_name in types if type_name in _TYPES]
    if "null" in types:
        node["nullable"] = True
    if len(known_types) == 1:
        node["type"] = known_types[0]
    else:
        del node["type"]
        if known_types:
            node.setdefault("anyOf", [{"type": type_name} for type_name in known_types])
    return "the list of types was rewritten"


def _null_to_nullable(node: Node) -> str | None:
    changed = None
    if node.get("type") == "null":
        node.update(type="string", nullable=True)
        changed = "null became nullable"
    alternatives = node.get("anyOf")
    if alternatives is not None and _NULL in alternatives:
        node["anyOf"] = [alternative for alternative in alternatives if alternative != _NULL]
        node["nullable"] = True
        changed = "null became nullable"
    return changed


def _single_alternative(node: Node) -> str | None:
    """An alternative that is a reference stays; it is replaced later."""
    alternatives = node.get("anyOf")
    if alternatives is None or len(alternatives) > 1 or _refers(alternatives):
        return None
    del node["anyOf"]
    if alternatives and isinstance(alternatives[0], Mapping):
        merge(node, dict(alternatives[0]))
        for _, rule in RULES[:5]:  # what it brought passes the earlier rules as well
            rule(node)
    return "the only alternative took the place of anyOf"


def _refers(alternatives: list[Any]) -> bool:
    return any(
        isinstance(alternative, Mapping) and ("$ref" in alternative or "allOf" in alternative)
        for alternative in alternatives
    )


def _members_into_alternatives(node: Node) -> str | None:
    """Beside alternatives Gemini takes nothing that restricts them, so each gets what all have."""
    if "anyOf" not in node:
        return None
    beside = {name: node.pop(name) for name in list(node) if name not in {"anyOf", "description", "nullable"}}
    if not beside:
        return None
    restricting = {
        name: value for name, value in beside.items() if name in KEPT and name not in {"title", "default"}
    }
    node["anyOf"] = [
        {**restricting, **alternative}
        if isinstance(alternative, Mapping) and "$ref" not in alternative
        else alternative
        for alternative in node["anyOf"]
    ]
    return "what stands beside anyOf moved into the alternatives"


def _enum_of_texts(node: Node) -> str | None:
    """An enum may hold texts only: null becomes nullable, other values are named in the description."""
    values = node.get("enum")
    if values is None:
        return None
    if values and all(isinstance(value, str) for value in values):
        node["type"] = "string"
        return None
    del node["enum"]
    if None in values:
        node["nullable"] = True
    values_left = [value for value in values if value is not None]
    if values_left and all(isinstance(value, str) for value in values_left):
        node.update(type="string", enum=values_left)
        return "null became nullable"
    if values_left:
        node.setdefault("type", _type_of(values_left[0]))
        value_list = ", ".join(json.dumps(value, ensure_ascii=False) for value in values_left)
        node["description"] = f"{node.get('description', '')} One of: {value_list}.".strip()
    return "the values of enum moved into the description"


def _type_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, Mapping | list):
        return "object" if isinstance(value, Mapping) else "array"
    return "integer" if isinstance(value, int) else "number" if isinstance(value, float) else "string"


def _exclusive_bounds(node: Node) -> str | None:
    changed = None
    for name, bound, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        value = node.pop(name, None)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            continue
        whole = node.get("type") == "integer"
        node.setdefault(
            bound, (math.floor(value) if step > 0 else math.ceil(value)) + step if whole else value
        )
        changed = "exclusive bounds became inclusive ones"
    return changed


def _drop_members(node: Node) -> str | None:
    dropped = [name for name in node if name not in KEPT]
    for name in dropped:
        del node[name]
    return f"{', '.join(dropped)} was dropped" if dropped else None


def _infer_type(node: Node) -> str | None:
    if node.get("type") in _TYPES or "anyOf" in node:
        return None
    inferred = "object" if "properties" in node else "array" if "items" in node else "string"
    node["type"] = inferred
    return f"the type is given as {inferred}"


def _formats(node: Node) -> str | None:
    form = node.get("format")
    if form is None or form in _FORMATS.get(str(node.get("type")), ()):
        return None
    del node["format"]
    return f"format {form} was dropped"


def _item_schema(node: Node) -> str | None:
    if node.get("type") == "array" and not isinstance(node.get("items"), Mapping):
        node["items"] = {"type": "string"}
        return "the items are described as text"
    if node.get("type") != "array" and "items" in node and "anyOf" not in node:
        del node["items"]
        return "items of what is no array were dropped"
    return None


def _known_required(node: Node) -> str | None:
    if "required" not in node:
        return None
    properties = node.get("properties")
    names = node["required"]
    required_names = [name for name in names if isinstance(name, str) and name in (properties or {})]
    if required_names == node["required"] and required_names:
        return None
    if required_names:
        node["required"] = required_names
    else:
        del node["required"]
    return None if not names else "required names only members that exist"


RULES: Final[tuple[tuple[str, Callable[[Node], str | None]], ...]] = (
    ("drop-malformed", _drop_malformed),
    ("const-to-enum", _const_to_enum),
    ("one-of-to-any-of", _one_of_to_any_of),
    ("types-to-any-of", _types_to_any_of),
    ("null-to-nullable", _null_to_nullable),
    ("single-alternative", _single_alternative),
    ("enum-of-texts", _enum_of_texts),
    ("exclusive-bounds", _exclusive_bounds),
    ("drop-members", _drop_members),
    ("members-into-alternatives", _members_into_alternatives),
    ("infer-type", _infer_type),
    ("formats", _formats),
    ("item-schema", _item_schema),
    ("known-required", _known_required),
)
"""Name -> rule. A rule changes a part of a schema, and tells what it did, or None if it did nothing."""


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
