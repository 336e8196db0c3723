"""Folders full of files, and the two search engines."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from workspace_server.results import well_formed
from workspace_server.sources.builtin.search.engine import Where, find_files, find_text
from workspace_server.sources.builtin.search.query import SearchSettings, TextQuery
from workspace_server.workspace import Folder, Workspace

RIPGREP = shutil.which("rg") or shutil.which("rg", path=str(Path(sys.executable).parent))

ENGINES = [
    pytest.param(
        "rg",
        id="ripgrep",
        marks=pytest.mark.skipif(RIPGREP is None, reason="no rg, and no wheel of it for this machine"),
    ),
    pytest.param("python", id="python"),
]


def write_tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write the files (path → content) below `root`; a path ending in `/` is an empty directory."""
    for name, content in files.items():
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def workspace_of(*roots: Path) -> Workspace:
    """A workspace whose folders are `roots`; the first is also its root."""
    folders = tuple(Folder(root.name, Path(os.path.realpath(root))) for root in roots)
    return Workspace(folders[0].path, folders)


def settings_of(engine: str, home: Path, *, deadline: float = 30.0) -> SearchSettings:
    """Settings for one of `ENGINES`, with `home` as the user's home."""
    program = RIPGREP if engine == "rg" else ""
    environ = {"HOME": str(home), "PATH": os.environ.get("PATH", "")}
    return SearchSettings(ripgrep=program, deadline=deadline, environ=environ)


async def names(
    engine: str, root: Path, query: str = "", *, limit: int = 1000, ignored: bool = False
) -> list[str]:
    """Paths of the files found below `root`, whose sibling `home` is the user's home; never late."""
    workspace = workspace_of(root)
    where = Where(query, "/query", ignored)
    found = await find_files(workspace, where, limit, settings_of(engine, root.parent / "home"))
    assert not found.late
    return [well_formed(path.relative_to(root).as_posix()) for path in found.items]


async def lines(
    engine: str, root: Path, query: TextQuery, include: str = "", *, limit: int = 1000, ignored: bool = False
) -> list[tuple[str, int, int]]:
    """(path, line, occurrences) of the lines found below `root`; never late."""
    where = Where(include, "/includePattern", ignored)
    found = await find_text(
        workspace_of(root), query, where, limit, settings_of(engine, root.parent / "home")
    )
    assert not found.late
    return [
        (well_formed(match.path.relative_to(root).as_posix()), match.line, match.occurrences)
        for match in found.items
    ]
