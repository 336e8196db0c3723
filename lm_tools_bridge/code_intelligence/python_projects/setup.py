"""Gives every language server for Python the environment of the project, and says what it lacks. Blocks."""

from __future__ import annotations

import os
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.python_projects.environments import (
    CONFIGURATIONS,
    EnvironmentFinder,
    PythonEnvironment,
    state_of,
)
from lm_tools_bridge.code_intelligence.python_projects.libraries import (
    imported_libraries,
    missing_environment,
)
from lm_tools_bridge.code_intelligence.python_projects.tool_choices import (
    ToolChoices,
    pyright_choices,
    ty_choices,
)
from lm_tools_bridge.code_intelligence.specification import ServerSpecification, merged_deep
from lm_tools_bridge.code_intelligence.tree.relevant_files import Relevance
from lm_tools_bridge.code_intelligence.tree.tree_scan import scan
from lm_tools_bridge.machine import regular_file

LOOK_AGAIN_S: Final = 60.0
"""So often imports are looked at where there is no environment: a look reads up to a thousand files."""
MAX_ENTRIES: Final = 20_000
"""Files and folders in which files of Python are looked for, as for the languages of a project."""
NO_LIBRARIES: Final = Path(__file__).parent / "no_libraries"
"""An environment without libraries: without any, ty would take that of the program that installed it."""
_EXCLUDES: Final = "[tool.ty.src] excludes files, and uses in these are not found"
_MYPY_FILES: Final = ("mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg")
_TOOLS_OWN: Final = (*CONFIGURATIONS, "ty.toml", "pyrightconfig.json")


class PythonSetup:
    """What the servers of one workspace need to know of its Python.

    Args:
        folders: of the workspace, absolute and link-free.
        finder: finds the environment.
        is_needed: whether servers will start; else kinds stay as they are.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        finder: EnvironmentFinder,
        *,
        is_needed: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folders = tuple(folders)
        self._finder = finder
        self._is_needed = is_needed
        self._clock = clock
        self._libraries: frozenset[str] = frozenset()
        self._unknown: frozenset[str] = frozenset()
        self._look_at = 0.0
        self._state: tuple[object, ...] = ()
        self._applied: dict[str, tuple[ServerSpecification, ServerSpecification]] = {}

    @property
    def is_current(self) -> bool:
        """Whether `apply_to` reads no files of the project but a few states."""
        return not self._is_needed or self._finder.latest is not None or self._clock() < self._look_at

    def environment(self) -> PythonEnvironment | None:
        """The environment of the project, as of the last look."""
        return self._finder.latest

    def look(self) -> None:
        """Notice what changed; the kinds that follow are about this state."""
        if not self._is_needed:
            return
        environment = self._finder.current()
        if environment is None and self._clock() >= self._look_at:
            self._libraries = imported_libraries(self._files(), self._folders[0])
            self._look_at = self._clock() + LOOK_AGAIN_S
        libraries = self._libraries if environment is None else frozenset[str]()
        own = tuple(state_of(folder / name) for folder in self._folders for name in _TOOLS_OWN)
        state = (environment, libraries, own)
        if state != self._state:
            self._state, self._unknown, self._applied = state, libraries, {}

    def apply_to(self, kind: ServerSpecification) -> ServerSpecification:
        """The kind with the environment of the project; the same object while nothing changes."""
        if not self._is_needed or kind.name not in _GIVEN:
            return kind
        former = self._applied.get(kind.name)
        if former is None or former[0] is not kind:
            given = _GIVEN[kind.name](kind, self._folders[0], self._finder.latest, self._unknown)
            former = self._applied[kind.name] = kind, given
        return former[1]

    def _files(self) -> list[Path]:
        relevance = Relevance(suffixes=frozenset({".py"}))
        return [Path(file) for file in scan(self._folders, relevance, MAX_ENTRIES).files]


def variables_with(environment: PythonEnvironment | None, search: str) -> dict[str, str]:
    """The variables by which programs find the environment, and never this program's own.

    Args:
        environment: that of the project.
        search: the PATH of its programs.
    """
    own = os.path.realpath(sysconfig.get_path("scripts"))
    is_own = sys.prefix != sys.base_prefix
    parts = [part for part in search.split(os.pathsep) if not (is_own and os.path.realpath(part) == own)]
    if environment is None:
        return {"PATH": os.pathsep.join(parts)}
    path = os.pathsep.join([str(environment.interpreter.parent), *parts])
    return {"PATH": path, "VIRTUAL_ENV": str(environment.path)}


def libraries_for_mypy(environment: PythonEnvironment | None, program: Path, root: Path) -> tuple[str, ...]:
    """The arguments by which mypy finds the libraries of the project, and not those beside itself.

    Args:
        environment: that of the project.
        program: the mypy that runs.
        root: the folder of the project, whose configuration may say it.
    """
    if any("python_executable" in regular_file.read_text(root / name) for name in _MYPY_FILES):
        return ()
    if environment is None:
        return ("--no-site-packages",)
    is_inside = program.is_relative_to(environment.path)
    return () if is_inside else ("--python-executable", str(environment.interpreter))


def _for_ty(
    kind: ServerSpecification, root: Path, environment: PythonEnvironment | None, libraries: frozenset[str]
) -> ServerSpecification:
    choices = ty_choices(root)
    configuration: dict[str, Any] = {}
    if not choices.names_environment:
        path = NO_LIBRARIES if environment is None else environment.path
        configuration["environment"] = {"python": str(path)}
    if choices.leaves_out:
        configuration["src"] = {"include": ["**"]}
    options: dict[str, Any] = {"configuration": configuration} if configuration else {}
    settings: dict[str, Any] = {"ty": options} if options else {}
    changed = _with_settings(kind, root, choices, environment, libraries, settings)
    excluded = _EXCLUDES if choices.excludes and not changed.doubt else changed.doubt
    return replace(changed, options=merged_deep(options, kind.options), doubt=excluded)


def _for_pyright(
    kind: ServerSpecification, root: Path, environment: PythonEnvironment | None, libraries: frozenset[str]
) -> ServerSpecification:
    choices = pyright_choices(root, kind.name)
    settings: dict[str, Any] = {}
    if environment is not None and not choices.names_environment:
        settings["python"] = {"pythonPath": str(environment.interpreter)}
    changed = _with_settings(kind, root, choices, environment, libraries, settings)
    return replace(changed, needs_named_files=choices.leaves_out)


def _for_mypy(
    kind: ServerSpecification, root: Path, environment: PythonEnvironment | None, libraries: frozenset[str]
) -> ServerSpecification:
    return _with_settings(kind, root, None, environment, libraries, {})  # it is told by its command line


def _for_pyrefly(
    kind: ServerSpecification, root: Path, environment: PythonEnvironment | None, libraries: frozenset[str]
) -> ServerSpecification:
    settings: dict[str, Any] = {}
    if environment is not None:
        settings["python"] = {"pythonPath": str(environment.interpreter)}
    return _with_settings(kind, root, None, environment, libraries, settings)


def _with_settings(  # noqa: PLR0917  the facts about one project
    kind: ServerSpecification,
    root: Path,
    choices: ToolChoices | None,
    environment: PythonEnvironment | None,
    libraries: frozenset[str],
    settings: Mapping[str, Any],
) -> ServerSpecification:
    """The kind with these settings, unless its own say otherwise, and with what it lacks."""
    is_given = choices is not None and choices.names_environment
    folders = () if environment is None else environment.site_packages
    return replace(
        kind,
        settings=merged_deep(settings, kind.settings),
        libraries=(*kind.libraries, *map(str, folders)),
        reads=() if environment is None else (environment.path,),
        checked_files=None if choices is None else choices.checked,
        unknown_modules=frozenset() if is_given else libraries,
        doubt="" if is_given else missing_environment(libraries, root),
    )


_GIVEN: Final = {
    "ty": _for_ty,
    "pyright": _for_pyright,
    "basedpyright": _for_pyright,
    "pyrefly": _for_pyrefly,
    "mypy": _for_mypy,
}
"""How each kind is told; Ruff needs no environment."""
