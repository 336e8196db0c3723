"""Converts schemas for providers: references, changes, and roots that must be plain objects. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import unquote

from lm_tools_bridge.agent.messages import Tool


@dataclass(frozen=True, slots=True)
class Change:
    """One change: where (`properties.path`; empty at the root), by which rule, and what it did."""

    place: str
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.place or 'schema'}: {self.text} ({self.rule})"


@dataclass(frozen=True, slots=True)
class Converted:
    """A schema as a provider takes it, None if it is best left out, and what was changed for that."""

    schema: Mapping[str, Any] | None
    changes: tuple[Change, ...] = ()


def referred(root: Mapping[str, Any], reference: object) -> Any:
    """What a reference into the same schema (`#/$defs/x`) refers to; None for any other and a wrong one."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    target: Any = root
    for part in reference[1:].split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping) and name in target:
            target = target[name]
        elif isinstance(target, list) and name.isdecimal() and int(name) < len(target):
            target = target[int(name)]
        else:
            return None
    return target


RULE: Final = "plain-root"
_ALTERNATIVES: Final = ("oneOf", "anyOf")
_REFUSED: Final = (*_ALTERNATIVES, "allOf", "not", "enum")


def plain_root(schema: Mapping[str, Any]) -> Converted:
    """The schema with a root that is a plain object, which has the members of all alternatives.

    A member is required if the root, a part of `allOf`, or every alternative requires it.
    """
    refused_keys = [name for name in _REFUSED if name in schema]
    if not schema or (not refused_keys and schema.get("type") == "object"):
        return Converted(schema)
    root = {name: value for name, value in schema.items() if name not in _REFUSED}
    properties, required = dict(_properties(schema)), set(_required(schema))
    for part in _parts(schema, "allOf"):
        properties = {**_properties(part), **properties}
        required.update(_required(part))
    for name in _ALTERNATIVES:
        parts = list(_parts(schema, name))
        for part in parts:
            properties = {**_properties(part), **properties}
        required.update(set.intersection(*(set(_required(part)) for part in parts)) if parts else ())
    root |= {"type": "object", "properties": properties}
    if required or "required" in schema:
        root["required"] = [name for name in properties if name in required]
    text = (
        f"{', '.join(refused_keys)} of the root became members"
        if refused_keys
        else "the root became an object"
    )
    return Converted(root, (Change("", RULE, text),))


def with_plain_root(tool: Tool) -> Tool:
    """The tool with such a schema."""
    converted = plain_root(tool.input_schema)
    return (
        replace(tool, input_schema=converted.schema)
        if converted.changes and converted.schema is not None
        else tool
    )


def _parts(schema: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    parts = schema.get(name)
    for part in parts if isinstance(parts, list) else ():
        target = referred(schema, part["$ref"]) if isinstance(part, Mapping) and "$ref" in part else part
        if isinstance(target, Mapping):
            yield target


def _properties(part: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = part.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _required(part: Mapping[str, Any]) -> list[str]:
    names = part.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
