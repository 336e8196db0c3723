"""The tool `lm_findTextInFiles`: finds lines that contain a text or match a regular expression."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from workspace_server import log
from workspace_server.sources.builtin.search.engine import Found, Where, find_text
from workspace_server.sources.builtin.search.query import (
    BadRegex,
    EngineUnavailable,
    SearchSettings,
    TextMatch,
    TextQuery,
)
from workspace_server.sources.builtin.tools.find_files import nothing_found
from workspace_server.tool import InvalidArguments, Tool, ToolError, ToolResult
from workspace_server.workspace import Workspace, absolute_text

DEFAULT_MAX_RESULTS = 500

_MATCH_SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Absolute path."},
        "line": {"type": "integer", "minimum": 1},
        "preview": {"type": "string", "description": "The line; of a long one the part around the match."},
    },
    "required": ["path", "line", "preview"],
    "additionalProperties": False,
}

TOOL = Tool(
    name="lm_findTextInFiles",
    definition={
        "name": "lm_findTextInFiles",
        "title": "Find text in files",
        "description": (
            "Search the contents of the workspace's files, line by line. `query` is plain text, or with "
            "`querySyntax: regex` a regular expression without look-around and backreferences. A query "
            "without capital letters matches any case, one with capitals only that case. `includePattern` "
            "is a glob as in lm_findFiles. Ignored, excluded and binary files and `.git` are left out. "
            "Results are sorted by path and line; `capped` says that there are more: narrow the query or "
            "the pattern then."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "description": "What to look for, within one line.",
                },
                "querySyntax": {
                    "type": "string",
                    "enum": ["literal", "regex"],
                    "description": "How to read `query`. Default: literal.",
                },
                "isRegexp": {"type": "boolean", "description": "Older spelling of `querySyntax: regex`."},
                "caseSensitive": {
                    "type": "boolean",
                    "default": False,
                    "description": "Match the exact case even if `query` has no capital letters.",
                },
                "includePattern": {
                    "type": "string",
                    "description": "Only files matching this glob: `*.ts`, `src/**`, `Folder/src/*.{ts,js}`.",
                },
                "maxResults": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 10_000,
                    "default": DEFAULT_MAX_RESULTS,
                    "description": "At most so many matching lines.",
                },
                "includeIgnoredFiles": {
                    "type": "boolean",
                    "default": False,
                    "description": "Also files that .gitignore or the editor's exclude settings hide.",
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "capped": {"type": "boolean", "description": "Whether there are, or may be, more matches."},
                "uniqueMatches": {"type": "integer", "minimum": 0, "description": "Matching lines."},
                "totalMatches": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Occurrences in these lines; a line can have several.",
                },
                "matches": {"type": "array", "items": _MATCH_SCHEMA},
            },
            "required": ["capped", "uniqueMatches", "totalMatches", "matches"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    keywords=("find", "search", "grep", "text", "regex", "content", "code", "usages"),
)


async def call(
    workspace: Workspace, arguments: Mapping[str, Any], *, settings: SearchSettings | None = None
) -> ToolResult:
    """Find the first `maxResults` lines by path and line; the result does not depend on the search engine.

    Raises:
        InvalidArguments: at `/query`, `/isRegexp` or `/includePattern`.
        ToolError: `query` is not a valid regular expression, or no search engine can run.
    """
    query = _query(arguments)
    where = Where(
        arguments.get("includePattern", ""), "/includePattern", arguments.get("includeIgnoredFiles", False)
    )
    limit = int(arguments.get("maxResults", DEFAULT_MAX_RESULTS))
    settings = settings or SearchSettings()
    try:
        found = await find_text(workspace, query, where, limit, settings)
    except BadRegex as error:
        raise _regex_error(error) from None
    except EngineUnavailable as error:
        log.error("search_unavailable", cause=str(error))
        raise ToolError(
            "Error: files cannot be searched now; free memory or temporary disk space, or install ripgrep"
        ) from None
    return await asyncio.to_thread(_result, workspace, found, settings)


def _query(arguments: Mapping[str, Any]) -> TextQuery:
    text: str = arguments["query"]
    syntax, alias = arguments.get("querySyntax"), arguments.get("isRegexp")
    if syntax is not None and alias is not None and (syntax == "regex") != alias:
        raise InvalidArguments("/isRegexp", f"disagrees with querySyntax '{syntax}'; give only querySyntax")
    if not text:
        raise InvalidArguments("/query", "must not be empty")
    if any(char in text for char in "\r\n\0"):
        raise InvalidArguments("/query", "must be one line of text; files are searched line by line")
    return TextQuery(text, syntax == "regex" or alias is True, arguments.get("caseSensitive", False))


def _regex_error(error: BadRegex) -> ToolError:
    """The error as the model sees it, with the position from 1."""
    position = None if error.position is None else error.position + 1
    where = "" if position is None else f" at character {position}"
    structured = {"reason": "invalid_regex", "position": position, "cause": error.reason}
    return ToolError(f"Error: invalid regular expression{where}: {error.reason}", structured)


def _result(workspace: Workspace, found: Found[TextMatch], settings: SearchSettings) -> ToolResult:
    total = sum(match.occurrences for match in found.items)
    structured = {
        "capped": found.capped,
        "uniqueMatches": len(found.items),
        "totalMatches": total,
        "matches": [
            {"path": absolute_text(match.path), "line": match.line, "preview": match.preview}
            for match in found.items
        ],
    }
    if not found.items:
        return ToolResult(nothing_found("No matches found.", found, settings), structured)
    head = [
        "Find text in files summary",
        f"uniqueMatches: {len(found.items)}",
        f"totalMatches: {total}{' (capped)' if found.capped else ''}",
    ]
    shown = [
        line
        for match in found.items
        for line in ("---", f"// {absolute_text(match.path)}:{match.line}", match.preview)
    ]
    return ToolResult("\n".join(head + shown), structured)
