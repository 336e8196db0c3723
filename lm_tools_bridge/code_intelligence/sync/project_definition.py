"""Says what a server's answers lack because a file that describes the project is missing, broken or new."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from lm_tools_bridge.code_intelligence.server import FileDiagnostics, ServerOutdated
from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.sync.node_packages import missing_packages
from lm_tools_bridge.code_intelligence.tree.tree_changes import Changes, Snapshot
from lm_tools_bridge.machine import regular_file

DATABASE: Final = "compile_commands.json"
_NOT_FOUND: Final = (
    "no compile_commands.json or compile_flags.txt says where headers are, and one was not found, "
    "so its errors may be wrong"
)

_NOT_LISTED: Final = (
    "{file} is not in compile_commands.json, so it guesses how the file is compiled, "
    "and its errors may be wrong"
)


class _Command(msgspec.Struct):
    """What every entry of a compilation database has."""

    directory: str
    file: str


_DECODER: Final = msgspec.json.Decoder(list[_Command])
_MAX_DATABASE: Final = 256 * 1024 * 1024
"""Bytes: that of Chromium has 100 MiB."""
_PACKAGES: Final = frozenset({"package.json"})
_COMPILED: Final = frozenset({".c", ".cc", ".cpp", ".cxx", ".c++", ".m", ".mm", ".cu"})
"""Suffixes of files that a database lists; headers are read with the files that include them."""


class _Databases(NamedTuple):
    """What compilation databases say: why the first broken one cannot be read, and which files they list."""

    broken: str = ""
    files: frozenset[str] = frozenset()


class ProjectDefinition:
    """The files that say what belongs to a project, as one kind of server reads them.

    Attributes:
        broken: why the kind cannot read one of them, in a sentence; empty if it can.
    """

    def __init__(self, specification: ServerSpecification, folders: Sequence[Path] = ()) -> None:
        self._specification = specification
        self._folders = folders
        self._names = frozenset(specification.project_files)
        self._are_there = self._are_flags_there = False
        self._databases = _Databases()
        self._packages = ""
        self.broken = ""

    def refuse_new(self, changes: Changes) -> None:
        """Raises:
        ServerOutdated: one is new, which the running server would not notice for long.
        """
        names = self._specification.restarts_for
        new = next((path for path in changes.created if _name(path) in names), None)
        if new is not None:
            raise ServerOutdated(f"{self._specification.name} is started again, because {new} is new")

    async def look(self, snapshot: Snapshot, changes: Changes | None) -> None:
        """Read those that are new or changed; after the first look (`changes` is None) all of them.

        Raises:
            ServerOutdated: one that could not be read can be now, which clangd does not notice for long.
        """
        if self._specification.joins_open_files and _may_change_packages(changes):
            self._packages = await asyncio.to_thread(missing_packages, self._folders, tuple(snapshot.files))
        names = self._names | self._specification.restarts_for
        if not names or (changes is not None and not changes.touches(names)):
            return
        definitions = [path for path in snapshot.files if _name(path) in self._names]
        self._are_there = bool(definitions)
        self._are_flags_there = any(_name(path) in names for path in snapshot.files)
        if DATABASE in self._names:
            self._databases = await asyncio.to_thread(_read_databases, definitions)
            was_broken, self.broken = self.broken, self._databases.broken
            if was_broken and not self.broken and changes is not None:
                raise ServerOutdated(f"{self._specification.name} is started again: {DATABASE} was mended")

    def missing(self) -> str:
        """What answers lack because there is none, or packages of Node.js are missing; empty if nothing."""
        return self._packages if self._are_there else self._specification.without_project_files

    def describes(self, path: Path) -> bool:
        """Whether something says how a file is compiled, if it is one that compilation databases list."""
        if DATABASE not in self._names or path.suffix not in _COMPILED:
            return True
        has_flags = self._are_flags_there and not self._are_there
        return has_flags or str(path) in self._databases.files

    def doubt(self, files: Iterable[FileDiagnostics]) -> str:
        """Why errors in these files may be none; empty if there is no doubt."""
        if DATABASE not in self._names:
            return ""
        if self._are_there:
            guessed = (file for file in files if not self.describes(file.path) and _has_error(file))
            return next((_NOT_LISTED.format(file=file.path.name) for file in guessed), "")
        return _NOT_FOUND if not self._are_flags_there and any(map(_lacks_header, files)) else ""


def _may_change_packages(changes: Changes | None) -> bool:
    """Whether a package may have come, gone, been changed or built."""
    if changes is None or changes.touches(_PACKAGES):
        return True
    return bool(changes.created or changes.deleted)


def _has_error(file: FileDiagnostics) -> bool:
    return any(diagnostic.get("severity") == 1 for diagnostic in file.diagnostics)


def _lacks_header(file: FileDiagnostics) -> bool:
    return any(diagnostic.get("code") == "pp_file_not_found" for diagnostic in file.diagnostics)


def _read_databases(databases: Collection[str]) -> _Databases:
    """What these files say; nothing if one is broken. Blocks."""
    files: set[str] = set()
    for path in databases:
        try:
            commands = _DECODER.decode(regular_file.read_bytes(Path(path), _MAX_DATABASE))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as failure:
            cause = failure.strerror if isinstance(failure, OSError) else str(failure)
            return _Databases(f"{path} cannot be read ({cause}), so it guesses how files are compiled")
        for command in commands:
            file = os.path.normpath(os.path.join(command.directory, command.file))  # noqa: PTH118  texts
            files |= {file, os.path.realpath(file)}
    return _Databases(files=frozenset(files))


def _name(path: str) -> str:
    return path.rpartition("/")[2]
