"""The tool `lm_findFiles`: finds files whose paths match a glob."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workspace_server.sources.builtin.search.engine import (
    Found,
    Where,
    copies_that_match,
    find_files,
    ignored_files_match,
)
from workspace_server.sources.builtin.search.query import SearchSettings
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
from workspace_server.tool import Tool, ToolResult
from workspace_server.workspace import Workspace, absolute_text

DEFAULT_MAX_RESULTS = 200
"""Paths: about 3,000 tokens."""
SHOWN_COPIES = 3
"""Git worktrees that an empty result names."""

TOOL = Tool(
    name="lm_findFiles",
    definition={
        "name": "lm_findFiles",
        "title": "Find files",
        "description": (
            "Find files of the project by a glob on their paths. For agents without a glob tool, and where "
            "theirs shows ignored files: these are left out. Without a slash it matches at any depth "
            "(`*.ts`), with one from your folder or the root (`src/**/*.{ts,js}`). If `capped`, there are "
            'more: `offset` gets them. Inside files: lm_findTextInFiles. Example: {"query": "*.test.ts"}'
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": 'A glob, absolute too, or a folder\'s name; "" is every file.',
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
                    "description": "Also what .gitignore or the editor's settings exclude.",
                },
                "offset": OFFSET_SCHEMA,
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "count": {"type": "integer", "minimum": 0, "description": "Number of `files`."},
                "capped": {"type": "boolean", "description": "Whether there are, or may be, more files."},
                "files": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Absolute paths, the files of a folder before those in its subfolders.",
                },
                **MEMBER_SCHEMAS,
                **NOTE_SCHEMA,
            },
            "required": ["count", "capped", "files"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    keywords=("find", "files", "glob", "path", "name", "search", "list"),
)


async def call(
    workspace: Workspace, arguments: Mapping[str, Any], *, settings: SearchSettings | None = None
) -> ToolResult:
    """Find `maxResults` files in path order, after the first `offset`.

    Raises:
        InvalidArguments: at `/query`.
    """
    where = Where(arguments["query"], "/query", arguments.get("includeIgnoredFiles", False))
    limit = int(arguments.get("maxResults", DEFAULT_MAX_RESULTS))
    offset = int(arguments.get("offset", 0))
    settings = settings or SearchSettings()
    result = await find_files(workspace, where, offset + limit, settings)
    note = "" if result.items or result.late else await hidden_note(workspace, where, settings)
    fit = "maxResults" not in arguments
    nothing = nothing_found("No files found.", result, settings)
    return await asyncio.to_thread(_result, result, offset, (nothing, note), fit=fit)


def _result(found: Found[Path], offset: int, nothing: tuple[str, str], *, fit: bool) -> ToolResult:
    files = [absolute_text(path) for path in found.items[offset:]]
    if fit:
        del files[fitting(len(path) + 5 for path in files) :]
    page = Page(offset, len(files), found.total, found.exact, found.late)
    capped = page.next_offset is not None or found.late
    structured = {"count": len(files), "capped": capped, "files": files, **page.members()}
    if not files:
        return empty(nothing[0], structured, nothing[1], page)
    count = f"count: {len(files)}{' (capped)' if capped else ''}"
    paths = [line for path in files for line in ("---", shown_path(path))]
    return ToolResult(
        "\n".join(["Find files summary", count, *paths, *ending(page, is_fitted=fit)]), structured
    )


def nothing_found(text: str, found: Found[Any], settings: SearchSettings) -> str:
    """The text of an empty result: `text`, and that the search was stopped at its deadline, if so."""
    if not found.late:
        return text
    return f"{text} (capped: the search was stopped after {settings.deadline:g} s; try a narrower pattern)"


async def hidden_note(workspace: Workspace, where: Where, settings: SearchSettings) -> str:
    """Says that the pattern matches files that are left out, and how to find them; empty if it does not."""
    if not where.include_ignored and await ignored_files_match(workspace, where, settings):
        return "only ignored or excluded files match; set includeIgnoredFiles to true to include them"
    copies = await copies_that_match(workspace, where, settings)
    if not copies:
        return ""
    examples = ", ".join(workspace.workspace_path(copy) or str(copy) for copy in copies[:SHOWN_COPIES])
    return f"only files in git worktrees inside the project match; begin the pattern with one of: {examples}"
