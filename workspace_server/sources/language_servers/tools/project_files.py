"""Lists the files of the project that a kind of server knows, as searches see them: ignored ones left out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workspace_server.sources.builtin.search.engine import Where, find_files
from workspace_server.sources.builtin.search.query import SearchSettings
from workspace_server.sources.language_servers.specification import ServerSpecification
from workspace_server.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The files, in order; `partial` if there are more."""

    paths: tuple[Path, ...]
    partial: bool


def where(kind: ServerSpecification) -> Where:
    """The files of a kind's languages, for searches."""
    names = [f"*{one}" if one.startswith(".") else one for one in kind.languages]
    return Where(f"**/{{{','.join(names)}}}" if len(names) > 1 else f"**/{names[0]}", "/filePath")


async def files_of(workspace: Workspace, kind: ServerSpecification, limit: int) -> ProjectFiles:
    """The first files of a kind's languages."""
    found = await find_files(workspace, where(kind), limit, SearchSettings())
    return ProjectFiles(found.items, found.capped)
