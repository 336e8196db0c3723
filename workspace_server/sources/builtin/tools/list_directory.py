"""The tool `lm_listDirectory`: lists a directory of the workspace.

Links are shown as links and never followed. Entries that a search would leave out are left out here, too,
except below an ignored directory that the caller named. Blocks only in a thread.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workspace_server.results import well_formed
from workspace_server.sources.builtin.search.ignore import IgnoreLevel, enter
from workspace_server.sources.builtin.search.query import SearchSettings
from workspace_server.sources.builtin.search.tree import NEVER_SEARCHED, Tree
from workspace_server.tool import Tool, ToolError, ToolResult
from workspace_server.workspace import Folder, PathNotFound, Workspace, absolute_text

DEFAULT_DEPTH = 1
DEFAULT_MAX_RESULTS = 500

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
            "List a directory of the workspace, by default its root: directories first, with a `/` at the "
            "end, then files. `depth` looks into subdirectories too. Ignored and excluded entries and "
            "`.git` are left out unless `includeIgnoredFiles` is set. To find files by name anywhere use "
            "lm_findFiles."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "filePath": {
                    "type": "string",
                    "description": (
                        "The directory: `Folder/path`, absolute, or relative to a workspace folder. "
                        "Default: the root of the workspace."
                    ),
                },
                "depth": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 5,
                    "default": DEFAULT_DEPTH,
                    "description": "How many levels to show; 1 is the directory's own entries.",
                },
                "maxResults": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 5000,
                    "default": DEFAULT_MAX_RESULTS,
                    "description": "At most so many entries; upper levels come first.",
                },
                "includeIgnoredFiles": {
                    "type": "boolean",
                    "default": False,
                    "description": "Also entries that .gitignore or the editor's exclude settings hide.",
                },
            },
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "count": {"type": "integer", "minimum": 0, "description": "Number of `entries`."},
                "capped": {"type": "boolean", "description": "Whether there are more entries."},
                "entries": {"type": "array", "items": _ENTRY_SCHEMA},
            },
            "required": ["count", "capped", "entries"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    keywords=("list", "directory", "folder", "ls", "tree", "entries", "structure"),
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry: its path, its name relative to the listed directory, and what it is."""

    path: Path
    name: str
    kind: str
    size: int | None

    @property
    def order(self) -> list[tuple[bool, bytes]]:
        """Sort key: directories come first on each level, each followed by its contents."""
        *above, last = self.name.split("/")
        return [(False, os.fsencode(part)) for part in above] + [
            (self.kind != "directory", os.fsencode(last))
        ]


@dataclass(frozen=True, slots=True)
class _Directory:
    """A directory whose entries are not listed yet.

    Attributes:
        tree: decides what is hidden; None if nothing is.
        path: the directory.
        base: its path relative to the workspace folder, with `/` at the end; "" for the folder itself.
        prefix: the start of the names of its entries in the result.
        level: the ignore rules inside it.
        depth: number of levels to list.
    """

    tree: Tree | None
    path: Path
    base: str
    prefix: str
    level: IgnoreLevel | None
    depth: int


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
    limit = int(arguments.get("maxResults", DEFAULT_MAX_RESULTS))
    try:
        top, found = _start(workspace, text, arguments, environ)
        entries = found + _breadth_first(top, limit + 1 - len(found))
    except PathNotFound as error:
        raise _failure(text, error.cause) from None
    except OSError as error:
        raise _failure(text, (error.strerror or "unreadable").lower()) from None
    capped = len(entries) > limit
    listed = top[0].path if len(top) == 1 else workspace.root
    return _result(workspace, listed, sorted(entries[:limit], key=lambda entry: entry.order), capped=capped)


def _start(
    workspace: Workspace, text: str, arguments: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[list[_Directory], list[_Entry]]:
    """The directories to start from, and the entries that are listed for them."""
    depth = int(arguments.get("depth", DEFAULT_DEPTH))
    ignored: bool = arguments.get("includeIgnoredFiles", False)

    def directory_at(folder: Folder, path: Path, prefix: str, levels: int) -> _Directory:
        tree = Tree.open(workspace, folder, environ, include_ignored=ignored)
        base = "" if path == folder.path else path.relative_to(folder.path).as_posix() + "/"
        level = tree.level_of(base.rstrip("/"))
        return _Directory(None if _hidden(tree, base) else tree, path, base, prefix, level, levels)

    if not text and len(workspace.folders) > 1:
        top = [
            directory_at(folder, folder.path, f"{folder.name}/", depth - 1) for folder in workspace.folders
        ]
        return top, [_Entry(folder.path, folder.name, "directory", None) for folder in workspace.folders]
    path = workspace.resolve_file(text, must_be="directory") if text else workspace.folders[0].path
    owners = [folder for folder in workspace.folders if path.is_relative_to(folder.path)]
    owner = max(owners, key=lambda folder: len(folder.path.parts))
    os.scandir(path).close()  # raises OSError; an unreadable directory further down is shown as empty
    return [directory_at(owner, path, "", depth)], []


def _hidden(tree: Tree, base: str) -> bool:
    """Whether searches leave out the directory itself."""
    parts = base.rstrip("/").split("/") if base else []
    names = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    above = ["", *names]
    return any(
        tree.hides(name, tree.level_of(parent), directory=True)
        for name, parent in zip(names, above, strict=False)
    )


def _breadth_first(top: list[_Directory], limit: int) -> list[_Entry]:
    """The first `limit` entries, upper levels first, names in byte order."""
    found: list[_Entry] = []
    waiting = deque(one for one in top if one.depth > 0)
    while waiting and len(found) < limit:
        here = waiting.popleft()
        for entry, inner in _entries(here):
            found.append(entry)
            if inner is not None and inner.depth > 0:
                waiting.append(inner)
    return found[: max(limit, 0)]


def _entries(here: _Directory) -> Iterator[tuple[_Entry, _Directory | None]]:
    try:
        with os.scandir(here.path) as scanned:
            names = sorted((entry.name for entry in scanned), key=os.fsencode)
    except OSError:
        return
    described = []
    for name in names:
        try:
            status = (here.path / name).lstat()
        except OSError:  # removed meanwhile
            continue
        kind = _kind(status.st_mode)
        hidden = (
            name == NEVER_SEARCHED
            if here.tree is None
            else here.tree.hides(here.base + name, here.level, directory=kind == "directory")
        )
        if not hidden:
            size = status.st_size if kind == "file" else None
            described.append(_Entry(here.path / name, here.prefix + name, kind, size))
    for entry in sorted(described, key=lambda entry: entry.order):
        yield entry, _subdirectory(here, entry) if entry.kind == "directory" and here.depth > 1 else None


def _subdirectory(here: _Directory, entry: _Entry) -> _Directory:
    base = f"{here.base}{entry.path.name}/"
    level = None if here.tree is None else enter(entry.path, base, here.level, here.tree.rules)
    return _Directory(here.tree, entry.path, base, f"{entry.name}/", level, here.depth - 1)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}
    return kinds.get(stat.S_IFMT(mode), "other")


def _failure(text: str, cause: str) -> ToolError:
    return ToolError(f'Error listing directory "{well_formed(text)}": {cause}', {"cause": cause})


def _result(workspace: Workspace, listed: Path, entries: list[_Entry], *, capped: bool) -> ToolResult:
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
    }
    if not entries:
        return ToolResult("Directory is empty.", structured)
    head = [
        "List directory summary",
        f"directory: {absolute_text(listed)}",
        f"count: {len(entries)}{' (capped)' if capped else ''}",
        "---",
    ]
    names = [well_formed(entry.name) + ("/" if entry.kind == "directory" else "") for entry in entries]
    return ToolResult("\n".join(head + names), structured)
