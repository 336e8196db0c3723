"""Walks one folder for a search: visible entries, their order, and which links may be followed.

The order is that of a walk with names sorted by their bytes, files and directories alike: `a/z` comes before
`a.b`, as with ripgrep's `--sort path`. Blocks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workspace_server.sources.builtin.search.editor_settings import SearchRules, read_rules
from workspace_server.sources.builtin.search.ignore import (
    IgnoreFile,
    IgnoreLevel,
    enter,
    extra_ignore_files,
    is_ignored,
    read_ignore_file,
)
from workspace_server.sources.builtin.search.patterns import PathFilter, exclude_filter
from workspace_server.workspace import Folder, Workspace

NEVER_SEARCHED: Final = ".git"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a walk.

    Attributes:
        relative: path relative to the folder.
        refused_link: whether it is a link that must not be followed.
        link: whether it is a link.
    """

    relative: str
    refused_link: bool = False
    link: bool = False


@dataclass(frozen=True, slots=True)
class _Directory:
    path: Path
    base: str
    real: str
    level: IgnoreLevel | None


@dataclass(frozen=True, slots=True)
class Tree:
    """One folder with everything that decides what is visible in it."""

    workspace: Workspace
    folder: Folder
    rules: SearchRules
    excludes: PathFilter
    extra_files: tuple[Path, ...]
    extra: tuple[IgnoreFile, ...]

    @classmethod
    def open(
        cls,
        workspace: Workspace,
        folder: Folder,
        environ: Mapping[str, str],
        *,
        include_ignored: bool = False,
    ) -> Tree:
        """Read the current rules of a folder. `environ` locates the user's git configuration."""
        rules = read_rules(workspace, folder, include_ignored=include_ignored)
        files = extra_ignore_files(folder.path, rules, environ)
        extra = tuple(file for file in map(read_ignore_file, files) if file is not None)
        return cls(workspace, folder, rules, exclude_filter(rules.excludes), files, extra)

    def level_of(self, relative: str) -> IgnoreLevel | None:
        """The ignore rules inside the directory `relative` ("" is the folder)."""
        level = enter(self.folder.path, "", None, self.rules)
        base, path = "", self.folder.path
        for part in relative.split("/") if relative else ():
            base, path = f"{base}{part}/", path / part
            level = enter(path, base, level, self.rules)
        return level

    def hides(self, relative: str, level: IgnoreLevel | None, *, directory: bool) -> bool:
        """Whether an entry is left out because of its name, an exclude setting or an ignore file."""
        if relative.rsplit("/", 1)[-1] == NEVER_SEARCHED:
            return True
        if self.excludes.globs and self.excludes(relative):
            return True
        return is_ignored(f"{relative}/" if directory else relative, level, self.extra)

    def files(self, stop: Callable[[], bool]) -> Iterator[str]:
        """All visible regular files, in order, relative to the folder. Ends early once `stop()` is true."""
        for found in self._walk(stop, files=True):
            if not found.refused_link:
                yield found.relative

    def links(self, stop: Callable[[], bool]) -> Iterator[Entry]:
        """All visible links, followed ones and those that must not be followed, in any order."""
        for found in self._walk(stop, files=False):
            if found.link:
                yield found

    def _walk(self, stop: Callable[[], bool], *, files: bool) -> Iterator[Entry]:
        root = self.folder.path
        top = _Directory(root, "", str(root), enter(root, "", None, self.rules))
        stack = [(top, _entries(root, ordered=files))]
        while stack and not stop():
            here, entries = stack[-1]
            entry = next(entries, None)
            if entry is None:
                stack.pop()
                continue
            above = [one.real for one, _ in stack] if entry.is_symlink() else []
            for found, inner in self._visit(entry, here, above, files=files):
                if inner is not None:
                    stack.append((inner, _entries(inner.path, ordered=files)))
                if found is not None:
                    yield found

    def _visit(
        self, entry: os.DirEntry[str], here: _Directory, above: list[str], *, files: bool
    ) -> Iterator[tuple[Entry | None, _Directory | None]]:
        link = entry.is_symlink()
        if link and not self.rules.follow_symlinks:
            return
        directory = _is_directory(entry)
        if not (directory or files or link):
            return
        relative = here.base + entry.name
        if self.hides(relative, here.level, directory=directory):
            return
        real = os.path.realpath(entry.path) if link else f"{here.real}{os.sep}{entry.name}"
        if link and (not self._may_follow(Path(real)) or (directory and real in above)):
            yield Entry(relative, refused_link=True, link=True), None
        elif directory:
            path = here.path / entry.name
            inner = _Directory(
                path, f"{relative}/", real, enter(path, f"{relative}/", here.level, self.rules)
            )
            yield (Entry(relative, link=True) if link and not files else None), inner
        elif link if not files else _is_file(entry):
            yield Entry(relative, link=link), None

    def _may_follow(self, real: Path) -> bool:
        return self.workspace.contains(real) and NEVER_SEARCHED not in real.parts


def _entries(path: Path, *, ordered: bool) -> Iterator[os.DirEntry[str]]:
    """The entries of a directory; none if it cannot be read."""
    try:
        with os.scandir(path) as entries:
            return iter(sorted(entries, key=lambda entry: os.fsencode(entry.name)) if ordered else [*entries])
    except OSError:
        return iter(())


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False
