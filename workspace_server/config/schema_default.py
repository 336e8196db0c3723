"""Parses a schema default, `tool.param=value`; `catalog/schema_defaults.py` applies it. Pure.

A value is a `"quoted"` string, `true` or `false` in any case, a number, or `{a,b}`, an array of these.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

SchemaDefault = tuple[str, str, Any]
"""Tool, parameter, value."""

_NUMBER: Final = re.compile(r"-?(?:\d+|\d*\.\d+)(?:[eE][+-]?\d+)?")
_ELEMENT: Final = re.compile(r'\s*("(?:\\.|[^"\\])*+"|[^",{}]*)\s*(,|\Z)', re.DOTALL)
_QUOTED: Final = re.compile(r'"(?:\\.|[^"\\])*+"', re.DOTALL)
_MAX_NUMBER: Final = 64


def parse(entry: str) -> SchemaDefault | None:
    """The parts of the entry, or None if its syntax is invalid."""
    key, equals, written = entry.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or len(parts) != 2 or not all(parts):
        return None
    try:
        return parts[0], parts[1], _value(written.strip())
    except ValueError:
        return None


def _value(written: str) -> Any:
    if written.startswith("{") and written.endswith("}"):
        return _array(written[1:-1])
    return _scalar(written)


def _scalar(written: str) -> str | bool | int | float:
    if _QUOTED.fullmatch(written) is not None:
        return _unquoted(written)
    if written.lower() in ("true", "false"):
        return written.lower() == "true"
    if len(written) > _MAX_NUMBER or _NUMBER.fullmatch(written) is None:
        raise ValueError(written)
    number = float(written)
    if number in (float("inf"), float("-inf")):
        raise ValueError(written)
    return int(written) if written.lstrip("-").isdigit() else number


def _unquoted(written: str) -> str:
    """The text between the quotes, with JSON escapes; taken literally if these are invalid (a path)."""
    try:
        return msgspec.json.decode(written, type=str)
    except msgspec.DecodeError:
        return written[1:-1]


def _array(inside: str) -> list[str | bool | int | float]:
    found = []
    position = 0
    while inside.strip():
        element = _ELEMENT.match(inside, position)
        if element is None:
            raise ValueError(inside)
        if element[1].strip():  # empty elements are skipped
            found.append(_scalar(element[1].strip()))
        position = element.end()
        if not element[2]:
            break
    return found
