"""Finds out which languages a project has, by the names of its files. Blocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from lm_tools_bridge.code_intelligence.kinds.typescript_version import (
    ProjectTypeScript,
    project_typescript,
)
from lm_tools_bridge.code_intelligence.tree.relevant_files import Relevance
from lm_tools_bridge.code_intelligence.tree.tree_scan import scan
from lm_tools_bridge.machine import regular_file

MAX_ENTRIES: Final = 20_000
"""Files and folders to look at; folders near the root come first."""
LOOK_AGAIN_S: Final = 10.0
"""A language that comes to a project is known after this time; a look lists up to 20,000 entries."""


@dataclass(frozen=True, slots=True)
class Project:
    """What the names of a project's files tell.

    Attributes:
        names: the suffixes and the whole names of its files, as far as they say something.
        top: the names directly in its folders.
        tables: the tables of its `pyproject.toml`, as `tool.ty`.
        typescript: which TypeScript it uses; None if nothing says.
    """

    names: frozenset[str] = frozenset()
    top: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    typescript: ProjectTypeScript | None = None


class ProjectLanguages:
    """The languages of one workspace.

    Args:
        folders: its folders.
        relevance: the names that say something.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        relevance: Relevance,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folders = folders
        self._relevance = relevance
        self._clock = clock
        self._found = Project()
        self._look_at = 0.0
        self._looked = False

    @property
    def is_current(self) -> bool:
        """Whether `current` needs no look."""
        return self._looked and self._clock() < self._look_at

    def current(self) -> Project:
        """What the project has; at most ten seconds old."""
        if not self.is_current:
            self._found = self._look()
            self._looked, self._look_at = True, self._clock() + LOOK_AGAIN_S
        return self._found

    def _look(self) -> Project:
        files = scan(self._folders, self._relevance, MAX_ENTRIES).files
        paths = [PurePath(path) for path in files]
        names = {name for path in paths for name in (path.name, path.suffix) if self._says(name)}
        top = {path.name for path in paths if path.parent in self._folders}
        tables = {table for folder in self._folders for table in _tables(folder / "pyproject.toml")}
        packages = [Path(path) for path in paths if path.name == "package.json"]
        typescript = project_typescript(self._folders, packages) if packages else None
        return Project(frozenset(names), frozenset(top), frozenset(tables), typescript)

    def _says(self, name: str) -> bool:
        return name in self._relevance.suffixes or name in self._relevance.names


def _tables(file: Path) -> Sequence[str]:
    tool = regular_file.read_toml(file).get("tool")
    return [f"tool.{name}" for name in tool] if isinstance(tool, dict) else ()
