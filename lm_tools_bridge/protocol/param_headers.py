"""Writes `Mcp-Param-*` headers: arguments that a tool's schema marks with `x-mcp-header` (MCP 2026-07-28).

Callers over HTTP use it. `workspace_server/calls/call.py` validates incoming requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.protocol import headers

ANNOTATION: Final = "x-mcp-header"
_MIRRORED: Final = frozenset({"string", "integer", "boolean"})


@dataclass(frozen=True, slots=True)
class Mirrored:
    """One annotated property: its path through nested objects, its header and its declared type."""

    path: tuple[str, ...]
    header: str
    kind: str


def annotated(schema: Any) -> Iterator[Mirrored]:
    """The annotated properties of an `inputSchema` that `properties` alone lead to."""
    return _annotated(schema, ())


def _annotated(schema: Any, path: tuple[str, ...]) -> Iterator[Mirrored]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return
    for key, inner in properties.items():
        if not isinstance(inner, Mapping):
            continue
        token, kind = inner.get(ANNOTATION), inner.get("type")
        if isinstance(token, str) and kind in _MIRRORED:
            yield Mirrored((*path, key), f"Mcp-Param-{token}", kind)
        yield from _annotated(inner, (*path, key))


def value_at(arguments: Any, path: tuple[str, ...]) -> str | int | float | bool | None:
    """The argument at a path; None if it is absent, null, an array or an object."""
    for key in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(key)
    return arguments if isinstance(arguments, str | int | float) else None


def mirror(properties: Iterable[Mirrored], arguments: Any) -> dict[str, str]:
    """The headers of a call with these arguments: name to encoded value."""
    values = {mirrored.header: value_at(arguments, mirrored.path) for mirrored in properties}
    return {name: headers.encode_value(_text(value)) for name, value in values.items() if value is not None}


def _text(value: str | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
