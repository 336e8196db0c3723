"""Says what a server's answers lack because a file that describes the project is missing, broken or new."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

import msgspec

from lm_tools_bridge.code_intelligence.server import FileDiagnostics, ServerOutdated
from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.tree.tree_changes import Changes, Snapshot

DATABASE: Final = "compile_commands.json"
_NOT_FOUND: Final = (
    "no compile_commands.json or compile_flags.txt says where headers are, and one was not found, "
    "so its errors may be wrong"
)


class _Command(msgspec.Struct):
    """What every entry of a compilation database has."""

    directory: str
    file: str


_DECODER: Final = msgspec.json.Decoder(list[_Command])


class ProjectDefinition:
    """The files that say what belongs to a project, as one kind of server reads them.

    Attributes:
        broken: why the kind cannot read one of them, in a sentence; empty if it can.
    """

    def __init__(self, specification: ServerSpecification) -> None:
        self._specification = specification
        self._names = frozenset(specification.project_files)
        self._are_there = self._are_flags_there = False
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
        names = self._names | self._specification.restarts_for
        if not names or (changes is not None and not changes.touches(names)):
            return
        definitions = [path for path in snapshot.files if _name(path) in self._names]
        self._are_there = bool(definitions)
        self._are_flags_there = any(_name(path) in names for path in snapshot.files)
        if DATABASE in self._names:
            was_broken, self.broken = self.broken, await asyncio.to_thread(_broken, definitions)
            if was_broken and not self.broken and changes is not None:
                raise ServerOutdated(f"{self._specification.name} is started again: {DATABASE} was mended")

    def missing(self) -> str:
        """What answers about the project lack because there is none; empty if nothing."""
        return "" if self._are_there else self._specification.without_project_files

    def doubt(self, files: Iterable[FileDiagnostics]) -> str:
        """Why errors in these files may be none; empty if there is no doubt."""
        if self._are_flags_there or DATABASE not in self._names:
            return ""
        codes = (diagnostic.get("code") for file in files for diagnostic in file.diagnostics)
        return _NOT_FOUND if any(code == "pp_file_not_found" for code in codes) else ""


def _broken(databases: Collection[str]) -> str:
    """Why the first broken one cannot be read. Blocks."""
    for path in databases:
        try:
            _DECODER.decode(Path(path).read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as failure:
            cause = failure.strerror if isinstance(failure, OSError) else str(failure)
            return f"{path} cannot be read ({cause}), so it guesses how files are compiled"
    return ""


def _name(path: str) -> str:
    return path.rpartition("/")[2]
