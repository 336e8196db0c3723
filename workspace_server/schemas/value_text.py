"""How values, paths and names of arguments appear in messages: short, and on one line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from lm_tools_bridge.text.near_names import near

MAX_VALUE = 80
"""Most characters that are shown of a value."""
_MOST_COMPARED: Final = 500
"""Names compared with a misspelt one: a caller waits for the answer, and servers may have thousands."""
_MAX_OPTIONS = 20

_TYPE_NAMES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    tuple: "array",
    dict: "object",
    type(None): "null",
}

ValuePath = Sequence[str | int]
"""Property names and indices from the arguments to a value in them."""


def pointer(path: ValuePath) -> str:
    """`path` as a JSON pointer (RFC 6901), with long parts shortened."""
    return "".join(f"/{cut(str(part)).replace('~', '~0').replace('/', '~1')}" for part in path)


def type_name(value: object) -> str:
    """The JSON type of a decoded value."""
    return _TYPE_NAMES.get(type(value), "object")


def cut(text: str) -> str:
    """Shorten `text` to at most 80 characters; the last one is `…` if characters are left out."""
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"


def shown(value: object) -> str:
    """A scalar as JSON of at most 80 characters; an array or object as its type name."""
    if isinstance(value, str):
        head = value if len(value) <= MAX_VALUE - 2 else value[: MAX_VALUE - 3] + "…"
        text = json.dumps(head, ensure_ascii=False)
        return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 2] + '…"'
    if isinstance(value, (bool, float)) or value is None:
        return json.dumps(value)
    if isinstance(value, int):
        return cut(str(value)) if value.bit_length() < 10_000 else "of many digits"
    return type_name(value)


def choices(values: Sequence[object]) -> str:
    """The allowed values, of which at most 20 are shown."""
    first_values = ", ".join(shown(value) for value in values[:_MAX_OPTIONS])
    return f"{first_values}, … ({len(values)} in all)" if len(values) > _MAX_OPTIONS else first_values


def value_at(root: Any, path: ValuePath) -> Any:
    """The value at `path` in decoded JSON, or None."""
    for part in path:
        try:
            root = root[part]
        except (KeyError, IndexError, TypeError):
            return None
    return root


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The most similar of `known` to a misspelt `name`, or None."""

    def plain(word: str) -> str:
        return word.replace("_", "").replace("-", "").lower()

    same = next((word for word in known if plain(word) == plain(name)), None)
    close = near(name[:MAX_VALUE], known[:_MOST_COMPARED])
    return same or (close[0] if close else None)
