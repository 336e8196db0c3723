"""The tool `lm_findTextInFiles`: finds lines that contain a text or match a regular expression."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from workspace_server import log
from workspace_server.sources.builtin.search.engine import Found, Where, find_files, find_text
from workspace_server.sources.builtin.search.query import (
    BadRegex,
    EngineUnavailable,
    SearchSettings,
    TextMatch,
    TextQuery,
)
from workspace_server.sources.builtin.tools.find_files import hidden_note, nothing_found
from workspace_server.sources.builtin.tools.pages import (
    MEMBER_SCHEMAS,
    NOTE_SCHEMA,
    OFFSET_SCHEMA,
    Page,
    empty,
    ending,
    fitting,
    shown_path,
)
from workspace_server.tool import InvalidArguments, Tool, ToolError, ToolResult
from workspace_server.workspace import Workspace, absolute_text

DEFAULT_MAX_RESULTS = 500
"""Lines, which a result divides into pages that fit a model."""

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
            "Find lines in the project's files by a text or regular expression. For agents without grep. "
            "Where a symbol is used or declared: lm_references and lm_findSymbol, if they are listed. A "
            "query without capitals matches any case. Ignored and binary files are left out. If `capped`, "
            'narrow the query, or go on with `offset`. Example: {"query": "TODO", "includePattern": "src/**"}'
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                },
                "querySyntax": {
                    "type": "string",
                    "enum": ["literal", "regex"],
                    "description": "Default: literal. regex: no look-around, no backreferences.",
                },
                "isRegexp": {"type": "boolean", "description": "Older for `querySyntax: regex`."},
                "caseSensitive": {
                    "type": "boolean",
                    "default": False,
                    "description": "Also without capitals.",
                },
                "includePattern": {
                    "type": "string",
                    "description": "A glob, as in lm_findFiles.",
                },
                "maxResults": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 10_000,
                    "default": DEFAULT_MAX_RESULTS,
                },
                "includeIgnoredFiles": {
                    "type": "boolean",
                    "default": False,
                    "description": "As in lm_findFiles.",
                },
                "offset": {**OFFSET_SCHEMA, "maximum": 10_000},
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
                **MEMBER_SCHEMAS,
                **NOTE_SCHEMA,
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
    """Find `maxResults` lines in the order of `search/engine.py`, after the first `offset`.

    Raises:
        InvalidArguments: at `/query`, `/isRegexp` or `/includePattern`.
        ToolError: `query` is not a valid regular expression, or no search engine can run.
    """
    query = _query(arguments)
    where = Where(
        arguments.get("includePattern", ""), "/includePattern", arguments.get("includeIgnoredFiles", False)
    )
    offset = int(arguments.get("offset", 0))
    limit = offset + int(arguments.get("maxResults", DEFAULT_MAX_RESULTS))
    settings = settings or SearchSettings()
    try:
        result = await find_text(workspace, query, where, limit, settings)
    except BadRegex as error:
        raise _regex_error(error) from None
    except EngineUnavailable as error:
        log.error("search_unavailable", cause=str(error))
        raise ToolError(
            "Error: files cannot be searched now; free memory or temporary disk space, or install ripgrep"
        ) from None
    note = ""
    if not result.items and not result.late and arguments.get("includePattern"):
        files = await find_files(workspace, where, 1, settings)
        note = "" if files.items or files.late else await _pattern_note(workspace, where, settings)
    fit = "maxResults" not in arguments
    nothing = nothing_found("No matches found.", result, settings)
    return await asyncio.to_thread(_result, result, offset, (nothing, note), fit=fit)


async def _pattern_note(workspace: Workspace, where: Where, settings: SearchSettings) -> str:
    """Why no file was searched."""
    hidden = await hidden_note(workspace, where, settings)
    return hidden or f"no file matches {where.pointer.removeprefix('/')}"


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


def _result(found: Found[TextMatch], offset: int, nothing: tuple[str, str], *, fit: bool) -> ToolResult:
    lines = found.items[offset:]
    if fit:
        lines = lines[: fitting(len(str(line.path)) + len(line.preview) + 45 for line in lines)]
    total = sum(match.occurrences for match in lines)
    page = Page(offset, len(lines), found.total, found.exact, found.late)
    capped = page.next_offset is not None or found.late
    structured = {
        "capped": capped,
        "uniqueMatches": len(lines),
        "totalMatches": total,
        "matches": [
            {"path": absolute_text(match.path), "line": match.line, "preview": match.preview}
            for match in lines
        ],
        **page.members(),
    }
    if not lines:
        return empty(nothing[0], structured, nothing[1], page)
    head = [
        "Find text in files summary",
        f"uniqueMatches: {len(lines)}",
        f"totalMatches: {total}{' (capped)' if capped else ''}",
    ]
    shown = [
        line
        for match in lines
        for line in ("---", f"// {shown_path(absolute_text(match.path))}:{match.line}", match.preview)
    ]
    return ToolResult("\n".join([*head, *shown, *ending(page, is_fitted=fit)]), structured)
