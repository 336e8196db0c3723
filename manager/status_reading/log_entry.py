"""Reads a line of a log, which is a JSON object or plain text. Pure."""

from __future__ import annotations

import json
from typing import Any, Final

_SHOWN_FIRST: Final = ("timestamp", "level", "event")


def parsed(line: str) -> dict[str, Any]:
    """The fields of a line; none if it is no entry, such as a line of a traceback."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def formatted(line: str) -> str:
    """A line as people read it: time, level, event, fields."""
    fields = parsed(line)
    if not fields:
        return line
    head = " ".join(str(fields.pop(name, "-")) for name in _SHOWN_FIRST)
    return " ".join([head, *(f"{name}={value}" for name, value in fields.items())])
