"""Finds the servers that clients start themselves, and plans that each runs once, from here. Blocks.

In a repository of git, the files of a project stay as they are, because colleagues read them, too: Claude
Code is told not to start their servers. Elsewhere, and from the user's own files, the servers move
to a `workspace.toml`.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from lm_tools_bridge.client_setup.adoption.adoption_files import PlannedAdoption, ProjectFiles, UserFiles
from lm_tools_bridge.client_setup.adoption.file_formats import PROJECT_FILES
from lm_tools_bridge.client_setup.change import FileFormat, decoded, value_at
from lm_tools_bridge.client_setup.clients import CLIENTS, Machine
from lm_tools_bridge.client_setup.editing import file_access
from lm_tools_bridge.client_setup.editing.file_access import FileState
from lm_tools_bridge.client_setup.refusals import Refusal
from manager.disk.claude_approvals import read_approvals

MAX_PROJECTS: Final = 100
"""A person reads no longer plan; more projects are named one by one."""
_LOOK_S: Final = 3.0
"""Longest look for projects: a folder of a network that is gone would hold it up for minutes."""
_REMEMBER_FOLDERS: Final = ("claude-code", "codex")
"""Clients whose own file has a section for each folder in which they worked."""


class Share(NamedTuple):
    """How the servers of a project, or of the user's files, come to run from here only.

    Attributes:
        files: the files.
        planned: what changes in them.
        moves: whether servers move to a `workspace.toml`, instead of a client being told not to start them.
    """

    files: ProjectFiles | UserFiles
    planned: PlannedAdoption
    moves: bool


def plan_for_project(
    files: ProjectFiles, machine: Machine, names: Collection[str] = (), *, moves: bool | None = None
) -> Share | Refusal:
    """The plan for a project.

    Args:
        files: of the project.
        machine: where Claude Code keeps what it was told.
        names: the servers; all if empty.
        moves: whether servers move; None decides by whether the project is a repository of git.
    """
    if moves is None:
        moves = not (files.root / ".git").exists()
    if moves:
        planned = files.plan(names)
    else:
        refused_before = read_approvals(machine.environ, machine.home, files.root).refused
        planned = files.plan_left_to_us(names, refused_before)
    return planned if isinstance(planned, Refusal) else Share(files, planned, moves)


def plan_for_user(files: UserFiles, names: Collection[str] = ()) -> Share | Refusal:
    """The plan for the user's own files."""
    planned = files.plan(names)
    return planned if isinstance(planned, Refusal) else Share(files, planned, moves=True)


def find_projects(machine: Machine, roots: Iterable[Path]) -> list[Path]:
    """The projects with files of clients: of these roots, and of the folders in which clients worked.

    Args:
        machine: whose clients.
        roots: the projects that are known otherwise.
    """
    projects: list[Path] = []

    def look() -> None:
        for folder in dict.fromkeys([*roots, *filter(_is_repository, _remembered_folders(machine))]):
            if len(projects) < MAX_PROJECTS and folder != machine.home and _has_client_files(folder):
                projects.append(folder)

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(_LOOK_S)
    return list(projects)


def _has_client_files(folder: Path) -> bool:
    try:
        return any((folder / file.path).is_file() for file in PROJECT_FILES)
    except OSError:
        return False


def _is_repository(folder: Path) -> bool:
    """Whether it is the root of a repository: worktrees come and go, folders below are served with it."""
    try:
        return (folder / ".git").is_dir()
    except OSError:
        return False


def _remembered_folders(machine: Machine) -> Iterator[Path]:
    for client in CLIENTS:
        if client.id in _REMEMBER_FOLDERS:
            for file in client.candidates(machine):
                yield from map(Path, _sections(file, client.form))


def _sections(file: Path, form: FileFormat) -> list[str]:
    state = file_access.read(file)
    text = decoded(state.content or b"", "") if isinstance(state, FileState) else None
    sections: Any = value_at(text, form, ("projects",)) if isinstance(text, str) else None
    return [name for name in sections if name.startswith("/")] if isinstance(sections, dict) else []
