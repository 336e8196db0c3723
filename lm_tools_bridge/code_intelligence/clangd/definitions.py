"""Defines the clangd tools as models see them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lm_tools_bridge.code_intelligence.clangd.lsp_request import MAX_TIMEOUT_MS, methods_of
from lm_tools_bridge.code_intelligence.clangd.symbol_names import KINDS
from lm_tools_bridge.code_intelligence.settings import ClangdSettings
from lm_tools_bridge.code_intelligence.tools.schemas import FILE, Schema, choice, define, flag, number, text
from workspace_server.tool import Tool

_POSITION: Final[Schema] = {
    "type": "object",
    "description": "Position of the symbol; both count from 1.",
    "properties": {
        "line": number("Line, from 1.", 1),
        "character": number("Character in the line, from 1.", 1),
    },
    "required": ["line", "character"],
    "additionalProperties": False,
}
_AT: Final[Mapping[str, Schema]] = {"filePath": FILE, "position": _POSITION}
_REQUIRED: Final = ("filePath", "position")
_DECLARATION: Final = flag("Whether the declaration itself counts as a reference.", default=False)
_SNIPPET: Final[Mapping[str, Schema]] = {
    "includeSnippet": flag("Whether to include source lines.", default=True),
    "snippetMaxLines": number("Most lines of source.", 1, 120, 20),
}
_SEARCH: Final[Mapping[str, Schema]] = {
    "matchMode": choice("Whether `query` is the name itself or a pattern.", ("exact", "regex"), "exact"),
    "kinds": {
        "type": "array",
        "items": {"type": "string", "enum": list(KINDS)},
        "description": "Only symbols of these kinds.",
    },
    "scopePath": text("Only below this folder, or in this file, of the workspace."),
}
_DIRECTIONS: Final = ("incoming", "outgoing", "both")
_KEYWORDS: Final = ("c++", "cpp", "c", "clangd", "unreal")


def _tool(
    name: str, title: str, description: str, properties: Mapping[str, Any], required: tuple[str, ...] = ()
) -> Tool:
    return define(f"lm_clangd_{name}", title, description, properties, required, keywords=_KEYWORDS)


TOOLS: Final[tuple[Tool, ...]] = (
    _tool(
        "status",
        "Clangd status",
        "Whether clangd is installed and runs, and how it is set up. Works without clangd.",
        {},
    ),
    _tool(
        "switchSourceHeader",
        "Switch source and header",
        "The header of a C or C++ source file, or the source file of a header.",
        {"filePath": FILE},
        ("filePath",),
    ),
    _tool(
        "symbolSearch",
        "Search symbols",
        "Find C and C++ declarations by name (`Stack::push` or `push`) or by pattern, with their signatures.",
        {
            "query": text("Name, qualified name or pattern.", minLength=1),
            **_SEARCH,
            "limit": number("Most entries.", 1, 200, 50),
        },
        ("query",),
    ),
    _tool(
        "symbolInfo",
        "Symbol information",
        "What the symbol at a position is: documentation, signature, definition, and its source lines.",
        {**_AT, **_SNIPPET},
        _REQUIRED,
    ),
    _tool(
        "symbolReferences",
        "Symbol references",
        "Where the symbol at a position is used.",
        {**_AT, "includeDeclaration": _DECLARATION, "limit": number("Most entries.", 1, 500, 200)},
        _REQUIRED,
    ),
    _tool(
        "symbolImplementations",
        "Symbol implementations",
        "Where the virtual function at a position is overridden, or the class derived from.",
        {**_AT, "limit": number("Most entries.", 1, 300, 100)},
        _REQUIRED,
    ),
    _tool(
        "callHierarchy",
        "Call hierarchy",
        "Who calls the function at a position, and whom it calls.",
        {
            **_AT,
            "direction": choice("Which calls.", _DIRECTIONS, "both"),
            "maxDepth": number("How many steps to follow.", 1, 6, 2),
            "maxBreadth": number("How many calls of one function to follow.", 1, 80, 20),
        },
        _REQUIRED,
    ),
    _tool(
        "typeHierarchy",
        "Type hierarchy",
        "What the class at a position derives from, and what derives from it, with source places.",
        {
            **_AT,
            "maxSuperDepth": number("How many steps upwards.", 0, 10, 3),
            "maxSubDepth": number("How many steps downwards.", 0, 10, 2),
            "maxSubBreadth": number("How many classes derived from one to follow.", 0, 100, 10),
        },
        _REQUIRED,
    ),
    _tool(
        "symbolBundle",
        "Everything about a symbol",
        "All about one C or C++ symbol in one call: what it is, references, implementations and calls. "
        "Address it by `query`, or by `filePath` and `position`.",
        {
            "query": text("Name, qualified name or pattern.", minLength=1),
            **_SEARCH,
            **_AT,
            "candidateLimit": number("Most candidates of a query to list.", 1, 100, 20),
            "candidateIndex": number("Which candidate to take, from 1.", 1, 100, 1),
            "referencesLimit": number("Most references.", 1, 500, 120),
            "implementationsLimit": number("Most implementations.", 1, 300, 80),
            "includeDeclaration": _DECLARATION,
            **_SNIPPET,
            "callDirection": choice("Which calls.", _DIRECTIONS, "both"),
            "callMaxDepth": number("How many steps of calls to follow.", 1, 6, 2),
            "callMaxBreadth": number("How many calls of one function to follow.", 1, 80, 20),
        },
    ),
)


def tools_of(settings: ClangdSettings) -> tuple[Tool, ...]:
    """The tools that these settings offer."""
    return (*TOOLS, _request_tool(settings)) if settings.passthrough else TOOLS


def _request_tool(settings: ClangdSettings) -> Tool:
    methods = list(methods_of(settings))
    return _tool(
        "lspRequest",
        "Request of LSP",
        "Send one request to clangd. Lines and characters count from 1, in parameters and in the result.",
        {
            "method": {"type": "string", "description": f"One of: {', '.join(methods) or 'none'}."},
            "params": {
                "type": "object",
                "description": "Its parameters; `textDocument` may hold `filePath` instead of `uri`.",
            },
            "timeoutMs": number("Longest duration in milliseconds.", 100, MAX_TIMEOUT_MS),
        },
        ("method",),
    )
