"""Folders full of files for tests, and the two engines that search them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from workspace_server.search.query import SearchSettings
from workspace_server.workspace import Folder, Workspace

RIPGREP = shutil.which("rg")

ENGINES = [
    pytest.param("rg", id="ripgrep", marks=pytest.mark.skipif(RIPGREP is None, reason="rg is not on PATH")),
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
