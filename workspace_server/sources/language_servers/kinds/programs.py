"""Finds the program of a language server: in the project, on the PATH, in our own environment. Blocks."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from workspace_server.sources.language_servers.kinds.real_programs import (
    is_program,
    is_typescript_7,
    real_command,
)

Origin = Literal["project", "PATH", "extra"]
PROJECT_FOLDERS: Final = (".venv/bin", "venv/bin", "node_modules/.bin")
"""Where the tools of a project are, relative to its folders."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that exists.

    Attributes:
        path: its absolute path.
        origin: in the project, which may contain anything; on the user's PATH; in our own environment.
        command: the beginning of the command line that runs it, without a wrapper where that is known.
    """

    path: Path
    origin: Origin
    command: tuple[str, ...]


class ProgramFinder:
    """Looks for programs on behalf of one workspace.

    Args:
        folders: the workspace's folders: what lies in them belongs to the project, wherever it was found.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(Path(os.path.realpath(folder)) for folder in folders)

    def find(self, name: str, search: str) -> Sequence[Program]:
        """The programs of this name: the project's, then the user's, then ours.

        The project's comes first because it has the version that the project wants.

        Args:
            name: its name, or a path, which is relative to the first folder.
            search: the PATH. Relative parts of it do not count.
        """
        found: dict[Path, Program] = {}
        for path, origin in self._places(name, search):
            if is_program(path) and (name != "tsc" or is_typescript_7(path)):
                found.setdefault(path, self._program(name, path, origin))
        # a PATH may lead into the project
        return sorted(found.values(), key=lambda one: one.origin != "project")

    def _places(self, name: str, search: str) -> Iterator[tuple[Path, Origin]]:
        if os.sep in name:
            yield self._folders[0] / name, "PATH"
            return
        for folder in self._folders:
            for tools in PROJECT_FOLDERS:
                yield folder / tools / name, "project"
        for part in search.split(os.pathsep):
            # an unfit program does not hide those after it
            found = shutil.which(name, path=part) if Path(part).is_absolute() else None
            if found is not None:
                yield Path(found), "PATH"
        yield Path(sysconfig.get_path("scripts")) / name, "extra"

    def _program(self, name: str, path: Path, origin: Origin) -> Program:
        command = real_command(name, path)
        places = [
            place for one in (str(path), *command) for place in (Path(one), Path(os.path.realpath(one)))
        ]
        inside = any(place.is_relative_to(folder) for folder in self._folders for place in places)
        return Program(path, "project" if inside else origin, command)
