"""Makes the arguments of a tool out of what a person typed: a JSON object, a bare value or nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

_LIKELY: Final = ("command", "path", "port", "pid")
"""Properties that a bare value is probably meant for."""
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})


class NoArguments(ValueError):
    """What was typed cannot be taken; the message says why."""


def arguments_of(typed: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments.

    A bare value is given to the first required property, else to the only one, else to one that such values
    are for, else to `value`, in the type that the schema has for it.

    Raises:
        NoArguments: it begins like an object and is none, or does not fit the type.
    """
    text = typed.strip()
    if not text:
        return {}
    if text.startswith("{"):
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise NoArguments(f"this is no JSON object: {error}") from error
        return dict(value)
    properties = schema.get("properties")
    members: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
    name = _property(schema, members)
    return {name: _converted(text, members.get(name), name)}


def _property(schema: Mapping[str, Any], properties: Mapping[str, Any]) -> str:
    required = schema.get("required")
    if isinstance(required, list) and required and isinstance(required[0], str):
        return required[0]
    if len(properties) == 1:
        return str(next(iter(properties)))
    return next((name for name in _LIKELY if name in properties), "value")


def _converted(text: str, schema: Any, name: str) -> Any:
    kinds = schema.get("type") if isinstance(schema, Mapping) else None
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        try:
            return _CONVERSIONS.get(kind, _as_text)(text)
        except (ValueError, RecursionError):
            continue
    raise NoArguments(
        f"{name} must be {' or '.join(map(str, kinds if isinstance(kinds, list) else [kinds]))}"
    )


def _as_text(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _as_boolean(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(text)


def _as_list(text: str) -> list[Any]:
    if not text.startswith("["):
        return [_as_text(text)]
    items = msgspec.json.decode(text)
    return list(items)


def _as_null(text: str) -> None:
    if text != "null":
        raise ValueError(text)


def _as_object(text: str) -> Any:
    raise ValueError(text)


_CONVERSIONS: Final[Mapping[Any, Callable[[str], Any]]] = {
    "integer": int, "number": float, "boolean": _as_boolean, "array": _as_list, "null": _as_null,
    "object": _as_object, "string": _as_text, None: _as_text,
}  # fmt: skip
