"""Lists the files of the project that a kind of server knows, as searches see them: ignored ones left out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.tree.relevant_files import SKIPPED_FOLDERS
from workspace_server.sources.builtin.kept_searches import KeptSearches
from workspace_server.sources.builtin.search.engine import Where, find_files
from workspace_server.workspace import Workspace

MAX_LISTED: Final = 50_000
"""Files of one listing; from each folder's files those of libraries are left out afterwards."""


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The files, in order; `partial` if there are more."""

    paths: tuple[Path, ...]
    partial: bool


def where(kind: ServerSpecification) -> Where:
    """The files of a kind's languages, for searches."""
    names = [f"*{language}" if language.startswith(".") else language for language in kind.languages]
    return Where(f"**/{{{','.join(names)}}}" if len(names) > 1 else f"**/{names[0]}", "/filePath")


async def files_of(
    workspace: Workspace, searches: KeptSearches, kind: ServerSpecification, limit: int
) -> ProjectFiles:
    """The first files of a kind's languages, without those of installed libraries."""
    files = await find_files(workspace, where(kind), MAX_LISTED, searches.settings())
    own = await asyncio.to_thread(without_libraries, workspace, files.items)
    checked = kind.checked_files
    own = [path for path in own if checked is None or checked.has(path)]
    return ProjectFiles(tuple(own[:limit]), files.capped or len(own) > limit)


def without_libraries(workspace: Workspace, paths: Iterable[Path]) -> list[Path]:
    """Those of the project itself: where nothing is ignored, `.venv` is listed, too. Blocks."""
    roots = {folder.path for folder in workspace.folders}
    is_library_by_folder: dict[Path, bool] = dict.fromkeys(roots, False)

    def is_library(folder: Path) -> bool:
        if folder not in is_library_by_folder:
            is_library_by_folder[folder] = (
                folder.name in SKIPPED_FOLDERS
                or (folder != folder.parent and is_library(folder.parent))
                or (folder / "pyvenv.cfg").exists()
            )
        return is_library_by_folder[folder]

    return [path for path in paths if not is_library(path.parent)]
