"""Says which kinds of language servers a workspace can use: by its languages, the programs, and trust."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.kinds.candidates import Candidate, CandidateFinder
from lm_tools_bridge.code_intelligence.kinds.checkers import MYPY
from lm_tools_bridge.code_intelligence.kinds.configured import ConfiguredKind, Setup, configured_kinds
from lm_tools_bridge.code_intelligence.kinds.programs import Program
from lm_tools_bridge.code_intelligence.kinds.project_languages import Project, ProjectLanguages
from lm_tools_bridge.code_intelligence.kinds.scripts_and_formats import TYPESCRIPT
from lm_tools_bridge.code_intelligence.kinds.table import (
    KINDS,
    OLDER_TYPESCRIPT,
    OUTLINE,
    chosen_by,
    groups,
)
from lm_tools_bridge.code_intelligence.outline.grammars import installed
from lm_tools_bridge.code_intelligence.python_projects.environments import (
    EnvironmentFinder,
    PythonEnvironment,
)
from lm_tools_bridge.code_intelligence.python_projects.setup import (
    PythonSetup,
    libraries_for_mypy,
    variables_with,
)
from lm_tools_bridge.code_intelligence.server import RunnableProgram, Unavailable
from lm_tools_bridge.code_intelligence.settings import LanguageServerEntry
from lm_tools_bridge.code_intelligence.specification import Role, ServerSpecification
from lm_tools_bridge.code_intelligence.tree.relevant_files import Relevance, relevance_of
from lm_tools_bridge.machine.disks import are_local
from lm_tools_bridge.machine.own_distribution import command_adding
from workspace_server.trust.item import TrustItem, Verdict, trust_command
from workspace_server.workspace import Workspace

Trusts = Callable[[Mapping[str, str]], Mapping[str, Verdict]]
"""What of some items, given by key and digest, the user trusts: see `TrustStore.verdicts`. Blocks."""
ROLES: Final[tuple[Role, ...]] = ("symbols", "diagnostics")


def trusts_nothing(digests: Mapping[str, str]) -> Mapping[str, Verdict]:
    """For a workspace in which nobody was asked."""
    return dict.fromkeys(digests, "never")


@dataclass(frozen=True, slots=True)
class KindChoices:
    """What decides about the kinds besides the project.

    Attributes:
        search_path: returns the PATH on which programs are looked for.
        root: the workspace, for the command that trusts it.
        trusts: tells what of the project's own, and of what runs its code, may run.
        entries: what the configuration says of single kinds.
        variables: returns those of the user's shell, as far as they are known; None where no server
            starts, so that nobody needs the environment of Python.
        python_environment: what the configuration says of it, absolute.
    """

    search_path: Callable[[], str]
    root: Path
    trusts: Trusts = trusts_nothing
    entries: tuple[LanguageServerEntry, ...] = ()
    variables: Callable[[], Mapping[str, str]] | None = None
    python_environment: Path | None = None


@dataclass(frozen=True, slots=True)
class _Ways:
    """How a kind can run: all ways, best first, and the item that the user can trust for the first."""

    all: Sequence[tuple[Setup, Candidate]]
    item: TrustItem | None

    @property
    def free(self) -> tuple[Setup, Candidate] | None:
        """The first that needs no trust."""
        return next((way for way in self.all if not way[1].needs_trust), None)


class AvailableKinds:
    """The `Kinds` of a workspace."""

    def __init__(self, folders: Sequence[Path], choices: KindChoices) -> None:
        self._choices = choices
        self._finder = CandidateFinder(folders, choices.search_path)
        self._kinds = configured_kinds(KINDS, choices.entries)
        everything = _relevant(self._kinds.values()) if choices.entries else _RELEVANT
        self._languages = ProjectLanguages(folders, everything)
        self._named = frozenset(entry.name for entry in choices.entries if entry.enabled)
        self._folders = tuple(folders)
        finder = EnvironmentFinder(folders, choices.variables or dict, choices.python_environment)
        self._python = PythonSetup(folders, finder, is_needed=choices.variables is not None)
        self._local: tuple[Project, str] | None = None  # what was known when all disks were local ones

    def is_quick(self) -> bool:
        """As `Kinds.is_quick`: the project was looked at, and no place to look at can hang."""
        if self._local is None or not (self._languages.is_current and self._python.is_current):
            return False
        return self._local == (self._languages.current(), self._choices.search_path())

    def known_kinds(self) -> Sequence[ServerSpecification]:
        """As `Kinds.known_kinds`."""
        kinds: dict[str, ServerSpecification] = {}
        for role in ROLES:
            for group in self.choose_kinds(role, None):
                kinds.update({kind.name: kind for kind in group})
        return list(kinds.values())

    def choose_kinds(self, role: Role, path: Path | None) -> Sequence[Sequence[ServerSpecification]]:
        """As `Kinds.choose_kinds`."""
        project = self._languages.current()
        if not self.is_quick():
            self._check_disks(project)
        names = project.names if path is None else frozenset({path.suffix, path.name})
        preferred = self._named | chosen_by(project.top, project.tables)
        if project.typescript is not None and not project.typescript.is_native:
            preferred |= OLDER_TYPESCRIPT
        alternatives = groups(role, names, preferred, self._current())
        fitting = [[kind for kind in group if self._fits(kind, project)] for group in alternatives]
        return [group for group in fitting if group]

    def kind_named(self, name: str) -> ServerSpecification | None:
        """As `Kinds.kind_named`."""
        return self._current().get(name)

    def find(self, specification: ServerSpecification) -> RunnableProgram | Unavailable:
        """As `Kinds.find`."""
        candidate = self.locate(specification)
        if not isinstance(candidate, Candidate):
            return candidate
        program = candidate.runnable
        if ".py" not in specification.languages or program.is_fenced:
            return program
        environment = self._python.environment()
        variables = variables_with(environment, self._choices.search_path())
        if specification.name == MYPY.name:
            argv = (*program.argv, *libraries_for_mypy(environment, candidate.program.path, self._folders[0]))
            program = replace(program, argv=argv)
        return replace(program, env={**variables, **program.env})

    def locate(self, specification: ServerSpecification) -> Candidate | Unavailable:
        """As `find`, with where the program is."""
        kind = self._kinds[specification.name]
        if kind.disabled_in is not None:
            reason = f"{specification.name} is switched off in {kind.disabled_in}"
            return Unavailable(specification, "disabled", reason)
        if specification.name == OUTLINE.name:
            return _outline()
        ways = self._ways(kind)
        if not ways.all:
            return _missing(specification)
        way = self._way(ways)
        if way is None:
            return self._untrusted(specification, ways)
        return self._lacking(specification) or way[1]

    def lacks_other_program(self, specification: ServerSpecification) -> bool:
        """Whether its own program is there, and only one is missing that it runs itself."""
        return bool(self._ways(self._kinds[specification.name]).all)

    def languages_of(self, specification: ServerSpecification) -> Sequence[str]:
        """The ids of those of its languages that the project has."""
        names = self._languages.current().names
        return sorted({language for name, language in specification.languages.items() if name in names})

    def python_environment(self) -> PythonEnvironment | None:
        """The environment that servers for Python are given."""
        return self._python.environment()

    def items(self) -> Sequence[TrustItem]:
        """What the user can trust: the best way to run each kind that the project needs.

        An item is optional where something else, or the same in another version, runs without it.
        """
        items: dict[str, TrustItem] = {}
        for role in ROLES:
            for group in self.choose_kinds(role, None):
                item = self._item_of(group)
                if item is not None and (item.key not in items or items[item.key].is_optional):
                    items[item.key] = item
        for kind in self._kinds.values():  # an entry in the project's own file is asked for in any case
            if kind.setups[0].is_projects and kind.disabled_in is None:
                item = self._ways(kind).item
                if item is not None:
                    items.setdefault(item.key, item)
        return list(items.values())

    def _lacking(self, kind: ServerSpecification) -> Unavailable | None:
        """That a program is missing which the server runs, where it cannot do without."""
        search = self._choices.search_path()
        for name, step in kind.needs.items():
            if not any(program.origin == "PATH" for program in self._finder.find_programs(name, search)):
                reason = f"`{name}` was not found, without which {kind.name} cannot read a project"
                return Unavailable(kind, "missing", f"{reason}; to install it: {step}")
        return None

    def _check_disks(self, project: Project) -> None:
        search = self._choices.search_path()
        folders = [Path(part) for part in search.split(os.pathsep) if os.path.isabs(part)]  # noqa: PTH117  texts
        if self._choices.variables is not None:  # environments of Python may be in the home
            folders.append(Path(self._choices.variables().get("HOME") or Path.home()))
        self._local = (project, search) if are_local((*self._folders, *folders)) else None

    def _item_of(self, group: Sequence[ServerSpecification]) -> TrustItem | None:
        first: TrustItem | None = None
        for kind in group:
            if kind.name == OUTLINE.name or self._kinds[kind.name].disabled_in is not None:
                continue
            ways = self._ways(self._kinds[kind.name])
            if first is None and ways.item is not None:
                first = replace(ways.item, is_optional=kind.is_optional)
            if ways.free is not None:
                return None if first is None else replace(first, is_optional=True)
        return first

    def _current(self) -> Mapping[str, ServerSpecification]:
        self._python.look()
        kinds = {name: self._python.apply_to(self._specification(kind)) for name, kind in self._kinds.items()}
        typescript = self._languages.current().typescript
        if typescript is not None and (doubt := typescript.doubt()):
            kinds[TYPESCRIPT.name] = replace(kinds[TYPESCRIPT.name], doubt=doubt)
        return kinds

    def _specification(self, kind: ConfiguredKind) -> ServerSpecification:
        """The kind as it is now: with the workspace's entry only if that is trusted."""
        if len(kind.setups) == 1 or kind.disabled_in is not None:
            return kind.without_trust
        way = self._way(self._ways(kind))
        return kind.without_trust if way is None else way[0].specification

    def _ways(self, kind: ConfiguredKind) -> _Ways:
        ways = [(setup, candidate) for setup in kind.setups for candidate in self._finder.candidates(setup)]
        needs_trust = bool(ways) and ways[0][1].needs_trust
        return _Ways(ways, self._finder.item(*ways[0]) if needs_trust else None)

    def _way(self, ways: _Ways) -> tuple[Setup, Candidate] | None:
        """The best way that may be gone now."""
        item = ways.item
        if item is not None and self._choices.trusts({item.key: item.digest()})[item.key] == "trusted":
            return ways.all[0]
        return ways.free

    def _fits(self, kind: ServerSpecification, project: Project) -> bool:
        is_marked = project.top & frozenset(kind.markers) or kind.name in chosen_by(
            frozenset(), project.tables
        )
        if kind.needs_marker and not is_marked:
            return False
        return not kind.is_optional or bool(self._ways(self._kinds[kind.name]).all)

    def _untrusted(self, kind: ServerSpecification, ways: _Ways) -> Unavailable:
        title = "" if ways.item is None else ways.item.title.partition(": ")[2]
        step = f"to allow it: {trust_command(self._choices.root)}"
        return Unavailable(kind, "untrusted", f"{kind.name} {title}, which needs trust; {step}")


def _missing(kind: ServerSpecification) -> Unavailable:
    names = " or ".join(dict.fromkeys(f"`{command[0]}`" for command in kind.commands))
    step = f"; to install it: {kind.install_step}" if kind.install_step else ""
    return Unavailable(kind, "missing", f"{names} was not found{step}")


def _outline() -> Candidate | Unavailable:
    if not installed():
        reason = f"the grammars are not installed; to add them: {command_adding('outline')}"
        return Unavailable(OUTLINE, "missing", reason)
    (command,) = OUTLINE.commands
    return Candidate(
        RunnableProgram(command, is_fenced=True),
        Program(Path(command[0]), "extra", command),
        needs_trust=False,
    )


def _relevant(kinds: Iterable[ConfiguredKind]) -> Relevance:
    """The names that matter to any kind."""
    relevance = Relevance()
    for kind in kinds:
        for setup in kind.setups:
            relevance = relevance | relevance_of(setup.specification)
    return relevance


_RELEVANT: Final = _relevant(configured_kinds(KINDS, ()).values())
"""The names where nothing is configured: made once, because all servers of a fork server share it."""


def available_kinds(
    root: Path,
    entries: tuple[LanguageServerEntry, ...],
    search: str,
    trusts: Trusts = trusts_nothing,
    *,
    variables: Callable[[], Mapping[str, str]] | None = None,
    python_environment: str = "",
) -> AvailableKinds:
    """The kinds of language servers as the workspace server sees them, with this PATH."""
    environment = root / python_environment if python_environment else None
    choices = KindChoices(lambda: search, root, trusts, entries, variables, environment)
    return AvailableKinds([folder.path for folder in Workspace.of(root).folders], choices)
