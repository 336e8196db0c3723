"""Lists the ways in which a kind of server can run in a project, and which of them need trust. Blocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_tools_bridge.code_intelligence.kinds.configured import Setup
from lm_tools_bridge.code_intelligence.kinds.programs import Program, ProgramFinder
from lm_tools_bridge.code_intelligence.server import RunnableProgram
from lm_tools_bridge.code_intelligence.settings import TRUST_PREFIX, LanguageServerEntry
from workspace_server.trust.command_files import CommandFileReader
from workspace_server.trust.item import TrustItem, hashed
from workspace_server.trust.redaction import redacted


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run a server.

    Attributes:
        runnable: what would run.
        program: its program.
        needs_trust: whether that runs something of the project.
    """

    runnable: RunnableProgram
    program: Program
    needs_trust: bool


@dataclass(slots=True)
class CandidateFinder:
    """Finds the candidates of one workspace.

    Attributes:
        folders: the workspace's folders.
        search_path: returns the PATH on which programs are looked for.
    """

    folders: Sequence[Path]
    search_path: Callable[[], str]
    _programs: ProgramFinder = field(init=False)
    _readers: Sequence[tuple[str, CommandFileReader]] = field(init=False)
    _items: dict[str, TrustItem] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._programs = ProgramFinder(self.folders)
        self._readers = [(str(folder), CommandFileReader(folder)) for folder in self.folders]

    def candidates(self, setup: Setup) -> list[Candidate]:
        """The ways to run a kind, best first; none if no program is there."""
        kind, entry = setup.specification, setup.entry
        candidates = []
        for name, *arguments in kind.commands:
            for program in self._programs.find(name, self.search_path(), is_any=kind.check is not None):
                command = (*program.command, *arguments)
                needs_trust = (
                    program.origin == "project" or setup.is_projects or not kind.runs_nothing_of_the_project
                )
                candidates.append(Candidate(_runnable(command, entry, not needs_trust), program, needs_trust))
        return candidates

    def find_programs(self, name: str, search: str) -> Sequence[Program]:
        """The programs of a name that a server runs itself: see `ProgramFinder.find`."""
        return self._programs.find(name, search, is_any=True)

    def item(self, setup: Setup, candidate: Candidate) -> TrustItem:
        """What the user trusts: the program, the files of the project in its command, and the entry."""
        kind, root = setup.specification, os.path.realpath(self.folders[0])
        named_files, files = self._files((*candidate.runnable.argv, str(candidate.program.path)), root)
        facts: dict[str, Any] = {
            "program": str(candidate.program.path),
            # without the path of the program, which `program` has
            "arguments": list(candidate.runnable.argv[len(candidate.program.command) :]),
            "runs": kind.project_code,
            "files": named_files,
        }
        if setup.is_projects and setup.entry is not None:
            facts |= _written(setup.entry, root)
        item = TrustItem(TRUST_PREFIX + kind.name, _title(setup, candidate), facts, files)
        same_item = self._items.get(item.key)
        if same_item == item:  # keeps its digest
            return same_item
        self._items[item.key] = item
        return item

    def _files(self, command: tuple[str, ...], cwd: str) -> tuple[dict[str, str], dict[str, bytes]]:
        """The files of the workspace that a command names, of all its folders."""
        facts: dict[str, str] = {}
        files: dict[str, bytes] = {}
        for folder, reader in self._readers:
            references = reader.named(command, cwd, "")
            # what lies in a further folder keeps its whole path: names there may be the same
            prefix = "" if folder == self._readers[0][0] else f"{folder}/"
            facts |= {f"{prefix}{name}": path for name, path in references.facts.items()}
            files |= {f"{prefix}{name}": content for name, content in references.files.items()}
        return facts, files


def _runnable(
    command: tuple[str, ...], entry: LanguageServerEntry | None, is_fenced: bool
) -> RunnableProgram:
    if entry is None:
        return RunnableProgram(command, is_fenced=is_fenced)
    return RunnableProgram(
        command,
        dict(entry.env),
        memory_limit_bytes=entry.memory_limit_bytes,
        idle_s=entry.idle_s,
        is_fenced=is_fenced,
    )


def _written(entry: LanguageServerEntry, root: str) -> Mapping[str, Any]:
    written = redacted(entry.raw, lambda _: False)
    return {
        "from": os.path.relpath(entry.origin.file, root),
        "written": {key: value for key, value in written.items() if key != "env"},
        "env": {name: hashed(value) for name, value in entry.env.items()},
    }


def _title(setup: Setup, candidate: Candidate) -> str:
    """Why it is asked for; the name of the server comes last before the colon."""
    kind = setup.specification
    reasons = []
    if setup.is_projects:
        reasons.append("is configured by the project")
    if candidate.program.origin == "project":
        reasons.append(f"is a program of the project ({candidate.program.path})")
    if kind.project_code:
        reasons.append(f"runs code of the project: {kind.project_code}")
    elif not kind.runs_nothing_of_the_project:
        reasons.append("may run code of the project: it is not known to run none")
    return f"language server {kind.name}: {'; '.join(reasons)}"
