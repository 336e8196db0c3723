"""The definitions of the meta-tools, as `tools/list` shows them.

Clients with a tool of their own named `tool_search` are shown ours under another name; calls by either name
work for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.protocol.internal.client_traits import ClientTraits

EXECUTE: Final = "execute_tool"
SEARCH: Final = "tool_search"
OTHER_SEARCH: Final = "search_project_tools"
"""The name of `tool_search` for clients whose own tool has that name."""
SEARCH_NAMES: Final = frozenset({SEARCH, OTHER_SEARCH})
META_NAMES: Final = SEARCH_NAMES | {EXECUTE}

DEFAULT_RESULTS: Final = 5
MAX_RESULTS: Final = 100

TOOL_SEARCH: Final[dict[str, Any]] = {
    "name": SEARCH,
    "title": "Search tools",
    "description": (
        "Find tools by what they are called or what they do. Many tools that can be called are not listed: "
        "search before you conclude that something cannot be done. Each hit has the tool's name, "
        "description, score (1 is best) and inputSchema; call it with execute_tool, or directly by its name. "
        "A few telling words work best; typing errors are forgiven."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "What the tool is called or does, e.g. `send email`. Empty: all tools.",
            },
            "max_results": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_RESULTS,
                "default": DEFAULT_RESULTS,
                "description": "How many hits to show at most.",
            },
        },
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}

EXECUTE_TOOL: Final[dict[str, Any]] = {
    "name": EXECUTE,
    "title": "Call a tool",
    "description": (
        "Call any tool by its name, as tool_search reports it, whether it is listed or not. The answer is "
        "exactly what the tool itself would answer. Look at the tool's inputSchema first."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The exact name of the tool."},
            "arguments": {
                "type": "object",
                "description": "The tool's own arguments, as its inputSchema wants them. Default: none.",
                "additionalProperties": True,
            },
        },
        "required": ["name"],
    },
}

_ALONE: Final = (
    "Call any tool by its exact name, whether it is listed or not, also one that came after the list was "
    "made. The answer is exactly what the tool itself would answer. To find a name, call this with the name "
    '`{search}` and the arguments `{{"query": "what the tool should do"}}`.'
)


def search_name(traits: ClientTraits) -> str:
    """The name under which a client is shown `tool_search`."""
    return OTHER_SEARCH if traits.own_tool_search else SEARCH


def meta_tools(traits: ClientTraits) -> Sequence[Mapping[str, Any]]:
    """Both meta-tools, for a client that does not have all tools in its list."""
    if not traits.own_tool_search:
        return EXECUTE_TOOL, TOOL_SEARCH
    described = EXECUTE_TOOL["description"].replace(SEARCH, OTHER_SEARCH)
    return {**EXECUTE_TOOL, "description": described}, {**TOOL_SEARCH, "name": OTHER_SEARCH}


def execute_alone(traits: ClientTraits) -> Mapping[str, Any]:
    """`execute_tool` for a client that has all tools there are now, and cannot learn of later ones."""
    return {**EXECUTE_TOOL, "description": _ALONE.format(search=search_name(traits))}
