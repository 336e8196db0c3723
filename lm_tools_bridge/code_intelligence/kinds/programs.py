"""Finds the program of a language server: in the project, on the PATH, in our own environment. Blocks."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from lm_tools_bridge.code_intelligence.kinds.real_programs import (
    WRAPPED,
    is_program,
    is_typescript_7,
    real_command,
)

Origin = Literal["project", "PATH", "extra"]
MAX_SEARCHED: Final = 1000
"""Searches that are remembered; each changed PATH adds one for every program."""
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


_States = tuple[tuple[int, ...] | None, ...]
"""Which files lie at some places: device, inode, time of status, mode; None where there is none."""


class ProgramFinder:
    """Looks for programs on behalf of one workspace. Keeps what it found until a file at one place changes.

    Args:
        folders: the workspace's folders: what lies in them belongs to the project, wherever it was found.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(Path(os.path.realpath(folder)) for folder in folders)
        self._own_scripts = sysconfig.get_path("scripts")
        self._known: dict[tuple[str, str, bool], tuple[_States, Sequence[Program]]] = {}
        self._searched: dict[tuple[str, str], Sequence[tuple[str, Origin]]] = {}

    def find(self, name: str, search: str, *, is_any: bool = False) -> Sequence[Program]:
        """The programs of this name: the project's, then the user's, then ours.

        The project's comes first because it has the version that the project wants.

        Args:
            name: its name, or a path, which is relative to the first folder.
            search: the PATH. Relative parts of it do not count.
            is_any: whether a program that is no language server will do, as a `tsc` before version 7.
        """
        places = self._searched.get((name, search))
        if places is None:
            if len(self._searched) >= MAX_SEARCHED:
                self._searched.clear()
            places = self._searched[name, search] = self._places(name, search)
        last_look = self._known.get((name, search, is_any))
        if last_look is not None and last_look[0] == _states(places, last_look[1]):
            return last_look[1]
        before = _states(places, ())
        programs = self._look(name, places, is_any)
        # while a package is installed, its script may be there before the program that it starts
        if name not in WRAPPED or all(program.command != (str(program.path),) for program in programs):
            self._known[name, search, is_any] = ((*before, *_states((), programs)), programs)
        return programs

    def _look(self, name: str, places: Sequence[tuple[str, Origin]], is_any: bool) -> Sequence[Program]:
        programs: dict[Path, Program] = {}
        for place, origin in places:
            path = Path(place)
            # an unfit program does not hide those after it
            if is_program(path) and (is_any or name != "tsc" or is_typescript_7(path)):
                programs.setdefault(path, self._program(name, path, origin))
        # a PATH may lead into the project
        return sorted(programs.values(), key=lambda program: program.origin != "project")

    def _places(self, name: str, search: str) -> Sequence[tuple[str, Origin]]:
        if os.sep in name:
            return [(str(self._folders[0] / name), "PATH")]
        places: list[tuple[str, Origin]] = [
            (f"{folder}/{tools}/{name}", "project") for folder in self._folders for tools in PROJECT_FOLDERS
        ]
        parts = search.split(os.pathsep)
        places += [(os.path.join(part, name), "PATH") for part in parts if os.path.isabs(part)]  # noqa: PTH117, PTH118  texts
        return [*places, (f"{self._own_scripts}/{name}", "extra")]

    def _program(self, name: str, path: Path, origin: Origin) -> Program:
        command = real_command(name, path)
        places = [
            place for word in (str(path), *command) for place in (Path(word), Path(os.path.realpath(word)))
        ]
        inside = any(place.is_relative_to(folder) for folder in self._folders for place in places)
        return Program(path, "project" if inside else origin, command)


def path_outside(search: str, folders: Sequence[Path]) -> str:
    """A PATH without relative parts, and without those that lead into these folders. Blocks."""
    parts = [part for part in search.split(os.pathsep) if os.path.isabs(part)]  # noqa: PTH117  texts
    real = {part: Path(os.path.realpath(part)) for part in parts}
    return os.pathsep.join(
        part for part in parts if not any(real[part].is_relative_to(folder) for folder in folders)
    )


def _states(places: Sequence[tuple[str, Origin]], programs: Sequence[Program]) -> _States:
    """The states of the files at these places, and of those that the programs' commands name."""
    words = [word for program in programs for word in program.command if word != str(program.path)]
    return tuple(_state(path) for path in (*(path for path, _ in places), *words))


def _state(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)  # noqa: PTH116  before each answer, at each place of the PATH
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns, status.st_mode
