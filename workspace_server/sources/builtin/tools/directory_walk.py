"""Walks a directory for `lm_listDirectory`: upper levels first, nothing that a search leaves out. Blocks.

Links are never followed. Below an ignored directory that the caller named nothing is left out. A git worktree
inside the tree that it is a copy of is shown, but its contents only if the caller named it.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.machine.git_worktrees import is_copy
from workspace_server.sources.builtin.files.ignore import NEVER_SEARCHED, IgnoreLevel, Tree, enter
from workspace_server.workspace import Folder, Workspace

DEFAULT_DEPTH: Final = 1
"""One level, as `ls` shows it."""


@dataclass(frozen=True, slots=True)
class Entry:
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
class Directory:
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


def start(
    workspace: Workspace, text: str, arguments: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[list[Directory], list[Entry]]:
    """The directories to start from, and the entries that are listed for them.

    Raises:
        InvalidArguments: at `/filePath`.
        OSError: the directory cannot be read.
    """
    depth = int(arguments.get("depth", DEFAULT_DEPTH))
    ignored: bool = arguments.get("includeIgnoredFiles", False)

    def directory_at(folder: Folder, path: Path, prefix: str, levels: int) -> Directory:
        tree = Tree.open(workspace, folder, environ, include_ignored=ignored)
        base = "" if path == folder.path else path.relative_to(folder.path).as_posix() + "/"
        level = tree.level_of(base.rstrip("/"))
        return Directory(None if _hidden(tree, base) else tree, path, base, prefix, level, levels)

    if not text and len(workspace.folders) > 1:
        top = [
            directory_at(folder, folder.path, f"{folder.name}/", depth - 1) for folder in workspace.folders
        ]
        return top, [Entry(folder.path, folder.name, "directory", None) for folder in workspace.folders]
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


def breadth_first(top: list[Directory], limit: int) -> list[Entry]:
    """The first `limit` entries, upper levels first, names in byte order."""
    entries: list[Entry] = []
    waiting = deque(entry for entry in top if entry.depth > 0)
    while waiting and len(entries) < limit:
        here = waiting.popleft()
        for entry, inner in _entries(here):
            entries.append(entry)
            if inner is not None and inner.depth > 0:
                waiting.append(inner)
    return entries[: max(limit, 0)]


def _entries(here: Directory) -> Iterator[tuple[Entry, Directory | None]]:
    try:
        with os.scandir(here.path) as scanned:
            names = sorted((entry.name for entry in scanned), key=os.fsencode)
    except OSError:
        return
    if here.prefix and NEVER_SEARCHED in names and is_copy(here.path):
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
            described.append(Entry(here.path / name, here.prefix + name, kind, size))
    for entry in sorted(described, key=lambda entry: entry.order):
        yield entry, _subdirectory(here, entry) if entry.kind == "directory" and here.depth > 1 else None


def _subdirectory(here: Directory, entry: Entry) -> Directory:
    base = f"{here.base}{entry.path.name}/"
    level = None if here.tree is None else enter(entry.path, base, here.level, here.tree.rules)
    return Directory(here.tree, entry.path, base, f"{entry.name}/", level, here.depth - 1)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}
    return kinds.get(stat.S_IFMT(mode), "other")
