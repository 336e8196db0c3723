"""The tool `lm_findFiles`: finds files whose paths match a glob."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workspace_server.sources.builtin.search.engine import Found, Where, find_files
from workspace_server.sources.builtin.search.query import SearchSettings
from workspace_server.tool import Tool, ToolResult
from workspace_server.workspace import Workspace, absolute_text

DEFAULT_MAX_RESULTS = 200

TOOL = Tool(
    name="lm_findFiles",
    definition={
        "name": "lm_findFiles",
        "title": "Find files",
        "description": (
            "Find files of the workspace by a glob on their paths. A pattern without a slash matches at "
            "any depth (`*.ts`); one with a slash starts at a workspace folder's root (`src/*`, "
            "`src/**/*.test.ts`) or at a folder's name (`Folder/src/**`). `{a,b}` means either. Absolute "
            "patterns work too. Files that the project ignores or excludes are left out, and `.git` always"
            " is. Results are sorted by path; `capped` says that there are more. To search inside files "
            "use lm_findTextInFiles."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": 'Glob like `**/*.{ts,js}` or `src/*`, or a folder name; "" is every file.',
                },
                "maxResults": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 10_000,
                    "default": DEFAULT_MAX_RESULTS,
                    "description": "At most so many files.",
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
                "count": {"type": "integer", "minimum": 0, "description": "Number of `files`."},
                "capped": {"type": "boolean", "description": "Whether there are, or may be, more files."},
                "files": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Absolute paths, sorted by folder and path.",
                },
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
    """Find the first `maxResults` files in path order; the result does not depend on the search engine.

    Raises:
        InvalidArguments: at `/query`.
    """
    where = Where(arguments["query"], "/query", arguments.get("includeIgnoredFiles", False))
    limit = int(arguments.get("maxResults", DEFAULT_MAX_RESULTS))
    settings = settings or SearchSettings()
    found = await find_files(workspace, where, limit, settings)
    return await asyncio.to_thread(_result, workspace, found, settings)


def _result(workspace: Workspace, found: Found[Path], settings: SearchSettings) -> ToolResult:
    structured = {
        "count": len(found.items),
        "capped": found.capped,
        "files": [absolute_text(path) for path in found.items],
    }
    if not found.items:
        return ToolResult(nothing_found("No files found.", found, settings), structured)
    count = f"count: {len(found.items)}{' (capped)' if found.capped else ''}"
    paths = [line for path in found.items for line in ("---", absolute_text(path))]
    return ToolResult("\n".join(["Find files summary", count, *paths]), structured)


def nothing_found(text: str, found: Found[Any], settings: SearchSettings) -> str:
    """The text of an empty result: `text`, with a note if the search was stopped at its deadline."""
    if not found.late:
        return text
    return f"{text} (capped: the search was stopped after {settings.deadline:g} s; try a narrower pattern)"
