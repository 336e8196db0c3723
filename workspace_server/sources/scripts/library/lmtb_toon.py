"""Formats values in TOON, a notation for models: indented like YAML, lists of like objects as tables.

Numbers have no exponent and keys with other characters than letters, digits and `_` are quoted, as programs
expect that read TOON of the older `llmr` library. `lmtb_toon_reader.py` reads it; see
https://github.com/toon-format/spec. Standard library only.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

_INDENT = "  "
_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LIKE_A_NUMBER = re.compile(r"(?=.*\d)[\d.]*([eE][+-]?[\d.]*)?|0\d.*")
_WORDS = ("true", "false", "null")
_SPECIAL = frozenset(':"\\[]{}\n\r\t,')


def encode(value: Any) -> str:
    """Convert a JSON value to TOON, without a final newline."""
    if isinstance(value, dict):
        return "\n".join(_members(value, 0))
    if isinstance(value, (list, tuple)):
        return "\n".join(_list("", list(value), 0))
    return _scalar(value)


def _members(value: dict[Any, Any], depth: int) -> Iterator[str]:
    for key, item in value.items():
        yield from _member(_key(str(key)), item, depth)


def _member(key: str, item: Any, depth: int) -> Iterator[str]:
    margin = _INDENT * depth
    if isinstance(item, dict):
        yield f"{margin}{key}:"
        yield from _members(item, depth + 1)
    elif isinstance(item, (list, tuple)):
        yield from _list(key, list(item), depth)
    else:
        yield f"{margin}{key}: {_scalar(item)}"


def _list(key: str, items: list[Any], depth: int) -> Iterator[str]:
    margin = _INDENT * depth
    head = f"{margin}{key}[{len(items)}]"
    if all(not isinstance(item, (dict, list, tuple)) for item in items):
        yield f"{head}: {','.join(map(_scalar, items))}" if items else f"{head}:"
    elif (columns := _columns(items)) is not None:
        yield f"{head}{{{','.join(map(_key, columns))}}}:"
        for item in items:
            yield margin + _INDENT + ",".join(_scalar(item[column]) for column in columns)
    else:
        yield f"{head}:"
        for item in items:
            yield from _entry(item, depth + 1)


def _entry(item: Any, depth: int) -> Iterator[str]:
    """One item of a list that cannot be a table; its first line begins with a dash."""
    margin = _INDENT * depth
    if isinstance(item, dict):
        lines = list(_members(item, depth + 1))
    elif isinstance(item, (list, tuple)):
        lines = list(_list("", list(item), depth + 1))
    else:
        lines = [margin + _INDENT + _scalar(item)]
    if not lines:
        yield f"{margin}-"
        return
    yield f"{margin}- {lines[0].removeprefix(margin + _INDENT)}"
    yield from lines[1:]


def _columns(items: list[Any]) -> list[str] | None:
    """The keys of the objects if all have the same keys and only scalar values, else None."""
    first = items[0]
    if not isinstance(first, dict) or not first:
        return None
    for item in items:
        if not isinstance(item, dict) or item.keys() != first.keys():
            return None
        if any(isinstance(value, (dict, list, tuple)) for value in item.values()):
            return None
    return list(first)


def _number(value: float) -> str:
    """The fewest digits that read back as the same number, without an exponent; a zero has no sign."""
    if not math.isfinite(value):
        return "null"
    if value == 0:
        return "0"
    return f"{Decimal(float.__repr__(value)):f}".removesuffix(".0")


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, int):
        return str(value)
    text = str(value)
    plain = text and text == text.strip() and not _SPECIAL & set(text) and not text.startswith("-")
    if plain and text not in _WORDS and not _LIKE_A_NUMBER.fullmatch(text):
        return text
    return json.dumps(text, ensure_ascii=False)
