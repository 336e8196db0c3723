"""Defines the arguments that several language tools share, and a short way to define a tool. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from workspace_server.tool import Tool

DEFAULT_WAIT_S: Final = 20
"""Most servers have read a project by then, and clients wait for a call at least a minute."""
MAX_WAIT_S: Final = 300
"""The first index of a large C++ project takes minutes."""
CALL_LIMIT_S: Final = 420.0
"""Longest duration of a call: the longest wait, and time to ask."""
SYMBOL_KINDS: Final = (
    *("file", "module", "namespace", "package", "class", "method", "property", "field", "constructor"),
    *("enum", "interface", "function", "variable", "constant", "string", "number", "boolean", "array"),
    *("object", "key", "null", "enum member", "struct", "event", "operator", "type parameter"),
)
"""The names of LSP's symbol kinds, which begin at 1."""

Schema = Mapping[str, Any]


def text(description: str, **members: Any) -> Schema:
    """A string."""
    return {"type": "string", "description": description, **members}


def flag(description: str, *, default: bool) -> Schema:
    """A boolean with a default."""
    return {"type": "boolean", "default": default, "description": description}


def number(description: str, least: int, most: int | None = None, default: int | None = None) -> Schema:
    """An integer within limits."""
    members = {"minimum": least, "maximum": most, "default": default}
    present = {name: value for name, value in members.items() if value is not None}
    return {"type": "integer", **present, "description": description}


def choice(description: str, values: Sequence[str], default: str | None = None) -> Schema:
    """One of some words."""
    members = {} if default is None else {"default": default}
    return {"type": "string", "enum": list(values), **members, "description": description}


FILE: Final = text("`Folder/path`, absolute, or relative: to your own folder, else to the workspace.")
WAIT: Final[Mapping[str, Schema]] = {
    "waitS": number(
        "Seconds to wait for servers that still read the project. 0: answer with what is known.",
        0,
        MAX_WAIT_S,
        DEFAULT_WAIT_S,
    )
}
TARGET: Final[Mapping[str, Schema]] = {
    "symbol": text("Name or name path, e.g. `push` or `Stack/push`.", minLength=1),
    "filePath": text(FILE["description"] + " With `symbol`: the file that declares it."),
    "line": number("Line of the symbol, from 1. With `symbol` the character is not needed.", 1),
    "character": number("Character in that line, from 1.", 1),
}
"""The symbol that a tool is about: by name, or by file and position."""


def page(default: int, most: int) -> Mapping[str, Schema]:
    """Which part of a long answer to return."""
    return {
        "limit": number("At most so many entries.", 1, most, default),
        "offset": number("Leave out so many entries; `nextOffset` of the last answer.", 0, None, 0),
    }


def define(
    name: str,
    title: str,
    description: str,
    properties: Mapping[str, Schema],
    required: Sequence[str] = (),
    *,
    keywords: Sequence[str] = (),
    annotations: Mapping[str, bool] | None = None,
) -> Tool:
    """A tool with these arguments; by default it only reads."""
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    if required:
        schema["required"] = list(required)
    definition = {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": schema,
        "annotations": {"readOnlyHint": True, "openWorldHint": False, **(annotations or {})},
    }
    return Tool(name, definition, keywords=tuple(keywords), timeout_s=CALL_LIMIT_S)
