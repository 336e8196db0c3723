"""Guesses what a tool does, for the icon that an editor shows beside its calls. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from acp.schema import ToolCallLocation, ToolKind

from lm_tools_bridge.agent.messages import Tool

_WORDS: Final[Mapping[str, ToolKind]] = {
    "delete": "delete", "remove": "delete", "move": "move", "rename": "move", "write": "edit", "edit": "edit",
    "replace": "edit", "patch": "edit", "create": "edit", "search": "search", "find": "search",
    "grep": "search", "run": "execute", "execute": "execute", "command": "execute", "shell": "execute",
    "fetch": "fetch", "download": "fetch", "read": "read", "list": "read", "get": "read",
}  # fmt: skip
_CHANGES: Final = frozenset({"delete", "move", "edit", "execute"})
_FILES: Final = ("filePath", "file_path", "path", "file")
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def kind_of(name: str, tool: Tool | None) -> ToolKind:
    """The kind, by the first telling word of the name; a tool that says it only reads changes nothing."""
    words = [word.lower() for word in _WORD.findall(name)]
    kind = next((_WORDS[word] for word in words if word in _WORDS), None)
    if tool is not None and tool.annotations.get("readOnlyHint") is True:
        return "read" if kind is None or kind in _CHANGES else kind
    return kind or "other"


def locations_of(arguments: Mapping[str, Any] | None, workspace: Path) -> list[ToolCallLocation]:
    """The file that a call is about, which an editor can open."""
    for name in _FILES:
        value = (arguments or {}).get(name)
        if isinstance(value, str) and value and value.isprintable():
            return [ToolCallLocation(path=str(workspace / value))]
    return []
