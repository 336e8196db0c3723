"""Finds what a caller may have meant by a path where nothing is."""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from lm_tools_bridge.text.near_names import near
from workspace_server.sources.builtin.search.engine import Where, find_files
from workspace_server.sources.builtin.search.query import SearchSettings
from workspace_server.tool import InvalidArguments
from workspace_server.workspace import Workspace

# Paths that a refusal suggests: more would hide the likely one.
MOST: Final = 5
LOOK_S: Final = 1.0
"""Longest search for files of the same name, in seconds."""
_NEAR: Final = 3
"""Names in one folder that are tried: of each, the rest of the path has to be there."""
_GLOB: Final = re.compile(r"[*?\[\]{}|\\]")


async def neighbours(workspace: Workspace, text: str, settings: SearchSettings) -> tuple[str, ...]:
    """Paths like `text`, as `Folder/path`: with similar names there, then with the same name elsewhere."""
    paths = await asyncio.to_thread(_similar, workspace, text.replace("\\", "/"))
    name = text.replace("\\", "/").rsplit("/", 1)[-1]
    if name and not _GLOB.search(name) and len(paths) < MOST:
        where = Where(name, "/filePath")
        try:
            same = await find_files(workspace, where, MOST, replace(settings, deadline=LOOK_S))
            paths += [workspace.workspace_path(path) for path in same.items]
        except InvalidArguments:
            pass
    return tuple(dict.fromkeys(path for path in paths if path is not None))[:MOST]


def _similar(workspace: Workspace, text: str) -> list[str | None]:
    paths: list[Path] = []
    for folder in workspace.folders:
        relative = text.removeprefix(f"{folder.path.as_posix()}/")
        for parts in (relative.removeprefix(f"{folder.name}/").split("/"), relative.split("/")):
            if not {"..", ""}.isdisjoint(parts):
                continue
            paths += _nearest(folder.path, parts)
    inside = [path for path in paths if workspace.contains(Path(os.path.realpath(path)))]
    return [workspace.workspace_path(path) for path in inside]


def _nearest(place: Path, parts: list[str]) -> list[Path]:
    """The paths that differ from `parts` below `place` in the first name that is not there."""
    for index, part in enumerate(parts):
        if _exists(place / part):
            place /= part
            continue
        rest = parts[index + 1 :]
        paths = [(place / name).joinpath(*rest) for name in _close(place, part)]
        return [path for path in paths if _exists(path)]
    return []


def _close(place: Path, name: str) -> list[str]:
    try:
        with os.scandir(place) as entries:
            return near(name, (entry.name for entry in entries), count=_NEAR)
    except OSError:
        return []


def _exists(path: Path) -> bool:
    """Whether anything is there; False, too, for names that no disk takes."""
    return os.path.exists(path)  # noqa: PTH110  the method of the path would fail for them
