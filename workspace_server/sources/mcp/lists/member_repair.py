"""Removes members that no client could read from the entries of a server's lists. Pure.

Clients read a list as a whole: one description that is a number, or a resource without a name, hides every
tool or resource of every server from them. Only members that MCP defines are looked at; others stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from workspace_server.sources.mcp.lists.kinds import PROMPTS, RESOURCES, TEMPLATES, TOOLS, ListKind
from workspace_server.sources.mcp.member_rules import (
    ANNOTATIONS,
    ANYTHING,
    ICONS,
    ListRule,
    ObjectRule,
    Rule,
    fitting,
    is_flag,
    is_text,
    is_whole,
    one_of,
)

_COMMON: Final[Mapping[str, Rule]] = {
    "title": is_text, "description": is_text, "icons": ICONS, "_meta": ANYTHING,
}  # fmt: skip
_HINTS: Final = ObjectRule(
    {"title": is_text, "readOnlyHint": is_flag, "destructiveHint": is_flag, "idempotentHint": is_flag,
     "openWorldHint": is_flag}
)  # fmt: skip
_FOR_CONTENT: Final[Mapping[str, Rule]] = {
    **_COMMON,
    "name": is_text,
    "mimeType": is_text,
    "annotations": ANNOTATIONS,
}
_ARGUMENTS: Final = ListRule(
    ObjectRule({"name": is_text, "title": is_text, "description": is_text, "required": is_flag}, ("name",))
)
_RULES: Final[Mapping[ListKind, ObjectRule]] = {
    TOOLS: ObjectRule(
        {**_COMMON, "annotations": _HINTS, "outputSchema": ANYTHING,
         "execution": ObjectRule({"taskSupport": one_of("forbidden", "optional", "required")})}
    ),
    PROMPTS: ObjectRule({**_COMMON, "arguments": _ARGUMENTS}),
    RESOURCES: ObjectRule({**_FOR_CONTENT, "size": is_whole}),
    TEMPLATES: ObjectRule(_FOR_CONTENT),
}  # fmt: skip
"""As the schemas of MCP 2025-11-25 and 2026-07-28. `catalog/listing.py` checks input schemas."""


def repaired(
    definition: Mapping[str, Any], kind: ListKind, name: str
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """A definition that clients can read, and the members that were removed.

    A member that is null is one that is absent, as many servers write it. A resource or template without a
    name gets `name`.
    """
    removed: list[str] = []
    kept: Mapping[str, Any] = fitting(definition, _RULES[kind], "", removed)
    if "name" in _RULES[kind].members and "name" not in kept:
        kept = {**kept, "name": name}
    return kept, tuple(removed)
