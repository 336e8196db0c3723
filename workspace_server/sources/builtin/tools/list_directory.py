"""The tool `lm_listDirectory`: lists a directory of the workspace.

Links are shown as links and never followed. Entries that a search would leave out are left out here, too,
except below an ignored directory that the caller named. Blocks only in a thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workspace_server.results import well_formed
from workspace_server.sources.builtin.search.query import SearchSettings
from workspace_server.sources.builtin.tools.directory_walk import DEFAULT_DEPTH, Entry, breadth_first, start
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
from workspace_server.tool import Tool, ToolError, ToolResult
from workspace_server.workspace import PathNotFound, Workspace, absolute_text

DEFAULT_MAX_RESULTS = 500
"""Entries: about 5,000 tokens; the rest comes by pages."""
MAX_COUNTED = 20_000
"""Entries that are counted; of more the result says that there are at least so many."""

_ENTRY_SCHEMA = {
    "type": "object",
    "properties": {
        "absolutePath": {"type": "string"},
        "workspacePath": {"type": ["string", "null"], "description": "`Folder/path`."},
        "kind": {"type": "string", "enum": ["file", "directory", "symlink", "other"]},
        "sizeBytes": {"type": ["integer", "null"], "minimum": 0, "description": "Of files only."},
    },
    "required": ["absolutePath", "workspacePath", "kind", "sizeBytes"],
    "additionalProperties": False,
}

TOOL = Tool(
    name="lm_listDirectory",
    definition={
        "name": "lm_listDirectory",
        "title": "List directory",
        "description": (
            "List a directory of the project, by default its root. For agents that cannot list directories "
            "themselves, and for a first look at a project without ignored files: `depth` shows the levels "
            "below. If `capped`, there are more: `offset` gets them. Files by name: lm_findFiles. "
            'Example: {"filePath": "src", "depth": 2}'
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "filePath": {
                    "type": "string",
                    "description": "Relative to your folder, else to the root; or absolute.",
                },
                "depth": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 5,
                    "default": DEFAULT_DEPTH,
                },
                "maxResults": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 5000,
                    "default": DEFAULT_MAX_RESULTS,
                },
                "includeIgnoredFiles": {
                    "type": "boolean",
                    "default": False,
                    "description": "Also what .gitignore or the editor's settings exclude.",
                },
                "offset": {**OFFSET_SCHEMA, "maximum": MAX_COUNTED},
            },
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "count": {"type": "integer", "minimum": 0, "description": "Number of `entries`."},
                "capped": {"type": "boolean", "description": "Whether there are more entries."},
                "entries": {"type": "array", "items": _ENTRY_SCHEMA},
                **MEMBER_SCHEMAS,
                **NOTE_SCHEMA,
            },
            "required": ["count", "capped", "entries"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    keywords=("list", "directory", "folder", "ls", "tree", "entries", "structure"),
)


async def call(
    workspace: Workspace, arguments: Mapping[str, Any], *, settings: SearchSettings | None = None
) -> ToolResult:
    """List `filePath`. Without it, list the root, or the folders of a workspace with several.

    Raises:
        InvalidArguments: at `/filePath`.
        ToolError: `Error listing directory "p": <cause>`.
    """
    environ = (settings or SearchSettings()).environ
    return await asyncio.to_thread(_list, workspace, arguments, os.environ if environ is None else environ)


def _list(workspace: Workspace, arguments: Mapping[str, Any], environ: Mapping[str, str]) -> ToolResult:
    text: str = arguments.get("filePath") or ""
    try:
        top, ways = start(workspace, text, arguments, environ)
        entries = ways + breadth_first(top, MAX_COUNTED + 1 - len(ways))
    except PathNotFound as error:
        raise _failure(text, error.cause) from None
    except OSError as error:
        raise _failure(text, (error.strerror or "unreadable").lower()) from None
    offset = int(arguments.get("offset", 0))
    page_entries = entries[offset : offset + int(arguments.get("maxResults", DEFAULT_MAX_RESULTS))]
    fit = "maxResults" not in arguments
    if fit:
        page_entries = page_entries[: fitting(2 * len(str(entry.path)) + 90 for entry in page_entries)]
    page = Page(offset, len(page_entries), min(len(entries), MAX_COUNTED), len(entries) <= MAX_COUNTED)
    folder = top[0].path if len(top) == 1 else workspace.root
    return _result(workspace, folder, sorted(page_entries, key=lambda entry: entry.order), page, fit=fit)


def _failure(text: str, cause: str) -> ToolError:
    return ToolError(f'Error listing directory "{well_formed(text)}": {cause}', {"cause": cause})


def _result(workspace: Workspace, folder: Path, entries: list[Entry], page: Page, *, fit: bool) -> ToolResult:
    capped = page.next_offset is not None
    structured = {
        "count": len(entries),
        "capped": capped,
        "entries": [
            {
                "absolutePath": absolute_text(entry.path),
                "workspacePath": workspace.workspace_path(entry.path),
                "kind": entry.kind,
                "sizeBytes": entry.size,
            }
            for entry in entries
        ],
        **page.members(),
    }
    if not entries:
        return empty("No more entries." if page.total else "Directory is empty.", structured, "", page)
    head = [
        "List directory summary",
        f"directory: {shown_path(absolute_text(folder))}",
        f"count: {len(entries)}{' (capped)' if capped else ''}",
        "---",
    ]
    names = [
        shown_path(well_formed(entry.name) + ("/" if entry.kind == "directory" else "")) for entry in entries
    ]
    return ToolResult("\n".join([*head, *names, *ending(page, is_fitted=fit)]), structured)
