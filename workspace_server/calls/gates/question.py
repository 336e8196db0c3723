"""Words the question whether a call may run: the tool and its arguments, nothing of them invisible. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from workspace_server.results import clean_text
from workspace_server.tool import Tool

MAX_ASKED: Final = 8000
"""Longest question in characters for the client's user."""
MAX_PENDING: Final = 4000
"""Longest question in characters for whoever answers elsewhere."""


def approval_message(name: str, tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The whole question: the tool and all its arguments, with invisible characters escaped."""
    hidden = _hidden_members(tool)
    lines = [f"Run {name}?"]
    for key, value in arguments.items():
        lines.append(f"{_one_line(key)}: {'[hidden]' if key in hidden else _shown(value)}")
    return "\n".join(lines)


def shortened(text: str, most: int, advice: str) -> str:
    """The first `most` characters of a question, how many more there are, and what to do if in doubt."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n… {len(text) - most} more characters are NOT shown; {advice} if in doubt"


def _one_line(text: str) -> str:
    """A name on one line: a line break inside could look like another argument."""
    return json.dumps(text) if "\n" in text or "\t" in text else _visible(text)


def _shown(value: Any) -> str:
    if not isinstance(value, str):
        return _visible(msgspec.json.encode(value).decode())
    text = _visible(value)
    return "\n" + "\n".join(f"    {line}" for line in text.split("\n")) if "\n" in text else text


def _visible(text: str) -> str:
    """The text, as escapes if it contains characters that hide or reorder others."""
    return text if clean_text(text) == text else json.dumps(text)


def _hidden_members(tool: Tool) -> set[str]:
    properties = tool.input_schema.get("properties")
    return {
        name
        for name, schema in (properties.items() if isinstance(properties, Mapping) else ())
        if isinstance(schema, Mapping)
        and (schema.get("writeOnly") is True or schema.get("format") == "password")
    }
