"""`Mcp-Param-*` headers: they must repeat the arguments that a tool's schema annotates (row M6). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from protocol import headers

ANNOTATION: Final = "x-mcp-header"
_MIRRORED: Final = frozenset({"string", "integer", "boolean"})
_DECIMAL: Final = re.compile(r"(-?(?:0|[1-9]\d{0,400}))(?:\.0+)?")


def mismatch(
    header: Mapping[str, str], schema: Mapping[str, Any], arguments: Mapping[str, Any]
) -> str | None:
    """What is wrong with the mirrored headers of one call, or None when they agree with its arguments.

    Args:
        header: the request's headers, case-insensitive, duplicates already refused.
        schema: the tool's `inputSchema`.
        arguments: the arguments; null counts as absent.
    """
    for path, token, kind in _annotated(schema, ()):
        name = f"Mcp-Param-{token}"
        value = _at(arguments, path)
        sent = header.get(name)
        if (sent is None) != (value is None):
            return f"{name} is {'missing' if sent is None else 'sent'}; the argument {'.'.join(path)} is not"
        if sent is None or value is None:
            continue
        text = headers.decode_value(sent)
        if text is None:
            return f"{name} is not canonical base64 of UTF-8"
        if not _equal(kind, value, text):
            return f"{name} differs from the argument {'.'.join(path)}"
    return None


def _annotated(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Path, header token and type of every annotated property that is reached through `properties` alone."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return
    for key, inner in properties.items():
        if not isinstance(inner, Mapping):
            continue
        token, kind = inner.get(ANNOTATION), inner.get("type")
        if isinstance(token, str) and kind in _MIRRORED:
            yield (*path, key), token, kind
        yield from _annotated(inner, (*path, key))


def _at(arguments: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(key)
    # what no header can carry is for the argument validation to refuse
    return arguments if isinstance(arguments, str | int | float) else None


def _equal(kind: str, value: Any, text: str) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if kind == "integer" and isinstance(value, int | float):
        found = _DECIMAL.fullmatch(text)
        return found is not None and value == value // 1 and int(found[1]) == int(value)
    return isinstance(value, str) and text == value
