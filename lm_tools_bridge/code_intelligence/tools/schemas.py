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
"""A part of a tool's input schema.

Every word of it is in the context of every model that sees the tools. So members that explain themselves have
no description, and limits that harm nobody if they are exceeded are applied by the tools.
"""
FILE: Final[Schema] = {"type": "string"}
"""`Folder/path`, absolute, or relative: to the caller's own folder, else to the workspace."""


def text(description: str = "", **members: Any) -> Schema:
    """A string."""
    return _schema("string", description, **members)


def flag(description: str = "", *, default: bool | None = None) -> Schema:
    """A boolean; without a default for what answers explain."""
    return _schema("boolean", description, default=default)


def number(
    description: str = "", least: int | None = None, most: int | None = None, default: int | None = None
) -> Schema:
    """An integer within limits."""
    return _schema("integer", description, minimum=least, maximum=most, default=default)


def choice(description: str, values: Sequence[str], default: str | None = None) -> Schema:
    """One of some words."""
    return _schema("string", description, enum=list(values), default=default)


def words(description: str = "", *, values: Sequence[str] = (), default: Sequence[str] = ()) -> Schema:
    """Several words, perhaps of these only."""
    item = {"type": "string", **({"enum": list(values)} if values else {})}
    return _schema("array", description, items=item, default=list(default) or None)


def _schema(kind: str, description: str, **members: Any) -> Schema:
    """The members that say something."""
    present = {name: value for name, value in members.items() if value is not None}
    return {"type": kind, **({"description": description} if description else {}), **present}


WAIT: Final[Mapping[str, Schema]] = {"waitS": number()}
"""How many seconds to wait for servers that still read the project; 0: answer with what is known."""
TARGET: Final[Mapping[str, Schema]] = {
    "symbol": text(),
    "filePath": FILE,
    "line": number(),
    "character": number(),
}
"""The symbol that a tool is about: by name, or by file and position."""


def page(default: int) -> Mapping[str, Schema]:
    """Which part of a long answer to return."""
    return {"limit": number(default=default), "offset": number()}


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
