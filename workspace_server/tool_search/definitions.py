"""The definitions of the two meta-tools, as `tools/list` shows them."""

from __future__ import annotations

from typing import Any, Final

DEFAULT_RESULTS: Final = 5
MAX_RESULTS: Final = 100

TOOL_SEARCH: Final[dict[str, Any]] = {
    "name": "tool_search",
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
    "name": "execute_tool",
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
