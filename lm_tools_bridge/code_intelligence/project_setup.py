"""Lists the project files that configure a language server, and what the project still lacks. Blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.sync.project_definition import ProjectDefinition
from lm_tools_bridge.code_intelligence.tree.relevant_files import Relevance, relevance_of
from lm_tools_bridge.code_intelligence.tree.tree_changes import Snapshot
from lm_tools_bridge.code_intelligence.tree.tree_scan import scan

MAX_FILES: Final = 5
"""Files of one server that are named: those of a monorepo are many, and the first ones are at its root."""


@dataclass(frozen=True, slots=True)
class ProjectSetup:
    """What a server has of a project.

    Attributes:
        files: the files that configure it or its language, relative to the project, those at the root first.
        more_files: how many there are beside these.
        lack: what its answers lack for want of a file or package, with what mends it; empty for nothing.
    """

    files: Sequence[str]
    more_files: int
    lack: str


def look_at_project(folders: Sequence[Path], kinds: Iterable[ServerSpecification]) -> Snapshot:
    """One look at the files that matter to any of these kinds."""
    relevance = Relevance()
    for kind in kinds:
        relevance = relevance | relevance_of(kind)
    return scan(folders, relevance)


def setup_of(kind: ServerSpecification, folders: Sequence[Path], snapshot: Snapshot) -> ProjectSetup:
    """What a kind of server has of a project.

    Args:
        kind: the server's.
        folders: of the project, absolute and link-free.
        snapshot: see `look_at_project`.
    """
    definition = ProjectDefinition(kind, folders)
    asyncio.run(definition.look(snapshot, None))
    names = relevance_of(kind).names - kind.languages.keys()
    paths = sorted((Path(file) for file in snapshot.files), key=lambda path: (len(path.parts), path))
    files = [_relative(path, folders) for path in paths if path.name in names]
    return ProjectSetup(files[:MAX_FILES], len(files[MAX_FILES:]), definition.broken or definition.missing())


def _relative(path: Path, folders: Sequence[Path]) -> str:
    folder = next((folder for folder in folders if path.is_relative_to(folder)), path.parent)
    return path.relative_to(folder).as_posix()
