"""Finds the skills below a folder, and their files: one bounded walk with `stat` calls only.

A skill is a folder with a `SKILL.md`. Names that begin with a dot, `__pycache__` and `*~` are skipped. A
link to a folder of skills, or to a skill, may lead to another place of the project. A link inside a skill
must lead to a file of the same skill; otherwise the skill is refused. `reading.py` reads the contents.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from workspace_server.files.change_detection import FileIdentity, file_identity

SKILL_FILE: Final = "SKILL.md"
# Every file is looked at again for each answer: these bounds keep that fast in a project that nobody checked.
MAX_FILES: Final = 512
MAX_BYTES: Final = 16 * 1024 * 1024
"""The limits of one skill that the extension fixes: files, and their bytes together."""
# Bounds of all folders together, for the same reason: a project can bring any number of them.
MAX_SKILLS: Final = 200
MAX_FOLDERS: Final = 2_000
MAX_ALL_ENTRIES: Final = 20_000
MAX_ALL_FILES: Final = 5_000
MAX_ALL_BYTES: Final = 64 * 1024 * 1024
"""The limits of all skills of one owner together."""
# Bounds of one skill's walk, so that one skill does not use up what all of them share.
_MAX_ENTRIES: Final = 2_000
_MAX_DEPTH: Final = 8


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One file of a skill: its name relative to the skill, the path to open, and its version."""

    name: str
    path: str
    identity: FileIdentity


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """One folder with a `SKILL.md`.

    Attributes:
        relative: its path below the folder of skills, with `/` as separator.
        real: its path without links.
        files: its files, those of nested skills too, sorted by name.
        problem: why it cannot be served; None if nothing is known against it.
    """

    relative: str
    real: str
    files: tuple[FoundFile, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Walk:
    """The result of a walk.

    Attributes:
        skills: the skills, sorted by path.
        skipped: paths relative to the folder that were left out, with the reason.
        complete: False if the walk stopped at a limit.
    """

    skills: tuple[FoundSkill, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    complete: bool = True


@dataclass(slots=True)
class Budget:
    """What may still be looked at in one check, over all folders of one owner.

    `seen` are the folders that were visited, so that a link to one of them adds no skill twice.
    """

    skills: int = MAX_SKILLS
    folders: int = MAX_FOLDERS
    entries: int = MAX_ALL_ENTRIES
    files: int = MAX_ALL_FILES
    bytes: int = MAX_ALL_BYTES
    seen: set[tuple[int, int]] = field(default_factory=set)

    def take_folder(self) -> bool:
        """Count a folder; returns whether it may be listed."""
        self.folders -= 1
        return min(self.skills, self.folders, self.entries, self.files, self.bytes) >= 0


@dataclass(slots=True)
class _Draft:
    relative: str
    real: str
    files: dict[str, FoundFile] = field(default_factory=dict)
    size: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder to visit: its path below the folder of skills, its real path, and the skills it is part of."""

    relative: str
    real: str
    depth: int = 0
    skills: tuple[_Draft, ...] = ()


def walk(folder: Path, within: str | None, budget: Budget, note: Callable[[str], None]) -> Walk:
    """Find the skills below `folder`; none if it is missing. Blocks.

    Args:
        folder: the folder of skills.
        within: the real path that `folder` and all skills must lie in; None for no such limit.
        budget: what may still be looked at.
        note: receives every path that the result depends on.
    """
    return _Walker(folder, within, budget, note).run()


class _Walker:
    def __init__(self, folder: Path, within: str | None, budget: Budget, note: Callable[[str], None]) -> None:
        self._folder = str(folder)
        self._within = within
        self._budget = budget
        self._note = note
        self._drafts: list[_Draft] = []
        self._skipped: list[tuple[str, str]] = []
        self._places: list[_Place] = []
        self._links: list[_Place] = []  # visited last: most of their targets were visited under real paths
        self._complete = True

    def run(self) -> Walk:
        self._note(self._folder)
        self._add_root()
        while self._places or self._links:
            place = (self._places or self._links).pop()
            if not self._budget.take_folder():
                self._places.append(place)
                self._complete = False
                break
            self._visit(place)
        for place in self._places:  # not visited, so their skills lack files
            _refuse(place.skills, "the skills have more files together than are read")
        drafts = sorted(self._drafts, key=lambda draft: draft.relative)
        return Walk(tuple(map(_skill, drafts)), tuple(self._skipped), self._complete)

    def _add_root(self) -> None:
        real = os.path.realpath(self._folder)
        if not os.path.isdir(real):
            return
        if self._is_inside(real, self._within):
            self._places.append(_Place("", real))
        else:
            self._skipped.append(("", "it is a link that leads out of the project"))

    def _visit(self, place: _Place) -> None:
        self._note(place.real)
        try:
            status = os.stat(place.real)
            entries = list(self._entries(place))
        except (OSError, ValueError):
            return
        is_new = (status.st_dev, status.st_ino) not in self._budget.seen
        self._budget.seen.add((status.st_dev, status.st_ino))
        if not (is_new or place.skills):
            return
        skills = place.skills
        if is_new and place.relative and any(entry.name == SKILL_FILE for entry in entries):
            self._budget.skills -= 1
            self._drafts.append(_Draft(place.relative, place.real))
            skills = (*skills, self._drafts[-1])
        for entry in entries:
            self._take(entry, place, skills)

    def _entries(self, place: _Place) -> Iterator[os.DirEntry[str]]:
        with os.scandir(place.real) as entries:
            for number, entry in enumerate(entries):
                if number >= _MAX_ENTRIES:
                    self._complete = False
                    _refuse(place.skills, f"one of its folders has more than {_MAX_ENTRIES} entries")
                    return
                self._budget.entries -= 1
                if not _is_hidden(entry.name):
                    yield entry

    def _take(self, entry: os.DirEntry[str], place: _Place, skills: tuple[_Draft, ...]) -> None:
        relative = f"{place.relative}/{entry.name}" if place.relative else entry.name
        if not _is_utf8(entry.name):
            _refuse(skills, "the name of one of its files is not UTF-8")
        elif entry.is_symlink():
            self._take_link(entry, relative, place, skills)
        elif entry.is_dir(follow_symlinks=False):
            self._descend(_Place(relative, entry.path, place.depth + 1, skills))
        elif skills and entry.is_file(follow_symlinks=False):
            self._add_file(relative, entry.path, skills)

    def _take_link(
        self, entry: os.DirEntry[str], relative: str, place: _Place, skills: tuple[_Draft, ...]
    ) -> None:
        real = os.path.realpath(entry.path)
        self._note(real)
        if skills:
            outermost = skills[0]
            if not self._is_inside(real, outermost.real):
                _refuse(skills, f"{_below(relative, outermost)} is a link that leads out of the skill")
            elif os.path.isfile(real):
                self._add_file(relative, real, skills)
            else:
                _refuse(skills, f"{_below(relative, outermost)} is a link to something that is no file")
        elif os.path.isdir(real):
            if self._is_inside(real, self._within):
                self._links.append(_Place(relative, real, place.depth + 1))
            else:
                self._skipped.append((relative, "it is a link that leads out of the project"))

    def _descend(self, place: _Place) -> None:
        if place.depth <= _MAX_DEPTH:
            self._places.append(place)
        else:
            _refuse(place.skills, f"its folders are more than {_MAX_DEPTH} levels deep")

    def _add_file(self, relative: str, path: str, skills: tuple[_Draft, ...]) -> None:
        self._note(path)
        try:
            status = os.lstat(path)
        except OSError:
            return  # removed meanwhile
        self._budget.files -= 1
        self._budget.bytes -= min(status.st_size, MAX_BYTES + 1)
        for skill in skills:
            name = _below(relative, skill)
            skill.files[name] = FoundFile(name, path, file_identity(status))
            skill.size += status.st_size
            if len(skill.files) > MAX_FILES:
                skill.problem = f"it has more than {MAX_FILES} files"
            elif skill.size > MAX_BYTES:
                skill.problem = f"its files are larger than {MAX_BYTES >> 20} MiB together"
        if not stat.S_ISREG(status.st_mode):
            _refuse(skills, "one of its files was replaced while it was read")

    @staticmethod
    def _is_inside(path: str, folder: str | None) -> bool:
        return folder is None or path == folder or path.startswith(folder.rstrip("/") + "/")


def _skill(draft: _Draft) -> FoundSkill:
    if draft.problem is not None:
        return FoundSkill(draft.relative, draft.real, problem=draft.problem)
    return FoundSkill(draft.relative, draft.real, tuple(draft.files[name] for name in sorted(draft.files)))


def _refuse(skills: tuple[_Draft, ...], reason: str) -> None:
    for skill in skills:
        skill.problem = skill.problem or reason


def _below(relative: str, skill: _Draft) -> str:
    return relative[len(skill.relative) + 1 :]


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.endswith("~") or name == "__pycache__"


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
