"""Finds tool folders and their files: one walk per request, with `stat` calls only.

Names that begin with a dot, `__pycache__` and `*~` are skipped. A folder below a tool that has its own
`tool.toml` is a tool of its own. `bundle.py` reads the contents. A project that
nobody trusted yet can bring any number of files: they are counted over all folders before they are read.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from workspace_server.files.change_detection import FileIdentity, file_identity, is_settled

# All tools are offered to a model and checked for each list: these are far beyond what helps it.
MAX_TOOLS: Final = 2_000
MAX_FOLDERS: Final = 10_000
MAX_PROJECT_FILES: Final = 20_000
MAX_PROJECT_BYTES: Final = 64 * 1024 * 1024
"""Size of all files of the tools and libraries together."""
MAX_PROJECT_MANIFEST_BYTES: Final = 4 * 1024 * 1024
"""Size of all `tool.toml` together, which are parsed."""


@dataclass(slots=True)
class WalkBudget:
    """What may still be looked at in one check."""

    tools: int = MAX_TOOLS
    folders: int = MAX_FOLDERS
    files: int = MAX_PROJECT_FILES
    bytes: int = MAX_PROJECT_BYTES
    manifest_bytes: int = MAX_PROJECT_MANIFEST_BYTES

    def take_folder(self) -> bool:
        """Count a folder; returns whether it may be listed."""
        self.folders -= 1
        return self.folders >= 0

    def take_tool(self, files: int, size: int, manifest_size: int) -> bool:
        """Count a tool with its files and their bytes; returns whether it may be read."""
        self.tools -= 1
        self.manifest_bytes -= manifest_size
        return self.take_files(files, size) and min(self.tools, self.manifest_bytes) >= 0

    def take_files(self, files: int, size: int) -> bool:
        """Count files and their bytes; returns whether they may be read."""
        self.files -= files
        self.bytes -= size
        return min(self.files, self.bytes) >= 0


MANIFEST: Final = "tool.toml"
# A tool is read whole before it runs: a folder with more holds data or packages, which do not belong there.
MAX_FILES: Final = 200
MAX_BYTES: Final = 8 * 1024 * 1024
MAX_MANIFEST_BYTES: Final = 64 * 1024
"""Size of one `tool.toml`; no larger one is parsed."""
# Entries and depth of one tool's walk, which is done again for each list.
_MAX_ENTRIES: Final = 5_000
_MAX_DEPTH: Final = 32


@dataclass(frozen=True, slots=True)
class Survey:
    """The names and identities of the files of one folder.

    Attributes:
        folder: absolute path of the folder.
        stamps: identity of every file and folder; equal if nothing changed.
        files: relative names, with `/` as separator.
        links: relative names and targets of the symbolic links.
        size: bytes of the files together.
        manifest_size: bytes of its `tool.toml`, 0 without one.
        problem: why the folder cannot be read; None if it can.
    """

    folder: str
    stamps: tuple[FileIdentity, ...] = ()
    files: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    size: int = 0
    manifest_size: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Walk:
    """The result of a walk through a tools folder.

    Attributes:
        tools: the tools, sorted by path.
        skipped: relative paths that were left out, each with the reason.
        complete: False if the walk stopped at a limit.
    """

    tools: tuple[Survey, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    complete: bool = True


@dataclass(slots=True)
class _Listing:
    """The entries of one folder, valid until its stamp changes."""

    stamp: FileIdentity
    settled: bool
    check: int
    files: list[tuple[str, str]] = field(default_factory=list)  # name, path
    links: list[tuple[str, str]] = field(default_factory=list)  # name, target
    folders: list[tuple[str, str]] = field(default_factory=list)  # name, path
    problem: str | None = None
    complete: bool = True


@dataclass(slots=True)
class _Paths:
    root: str
    budget: WalkBudget
    real: str
    waiting: list[tuple[str, str, int]]
    links: list[tuple[str, str, int]] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)
    tools: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    complete: bool = True


class Tree:
    """Caches folder listings while the folders do not change. Methods block, and are not thread-safe.

    Args:
        wall_ns: the wall clock in nanoseconds since 1970.
    """

    def __init__(self, wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._wall_ns = wall_ns
        self._known: dict[str, _Listing] = {}
        self._check = 0

    def begin(self) -> None:
        """Start a new check: every cached listing is verified with `stat` before it is used again."""
        self._check += 1

    def forget(self) -> None:
        """Drop the cached listings of folders that the current check did not visit."""
        self._known = {path: listing for path, listing in self._known.items() if listing.check == self._check}

    @property
    def looked_at(self) -> Iterator[str]:
        """The paths of all cached folders and their files."""
        for path, listing in self._known.items():
            yield path
            yield from (file for _, file in listing.files)

    @property
    def has_no_links(self) -> bool:
        """Whether no cached folder contains a symbolic link."""
        return not any(listing.links for listing in self._known.values())

    def walk(self, root: Path, budget: WalkBudget) -> Walk:
        """Find the tools below `root`, at any depth, within the budget; none if `root` is missing."""
        paths = _Paths(str(root), budget, os.path.realpath(root), [("", str(root), 0)])
        while paths.waiting or paths.links:
            # links last: most of their targets were visited under their real paths by then
            relative, path, depth = (paths.waiting or paths.links).pop()
            if not budget.take_folder():
                paths.complete = False
                break
            self._visit(relative, path, depth, paths)
        tools = tuple(self._surveys(paths))
        return Walk(tools, tuple(paths.skipped), paths.complete)

    def _surveys(self, paths: _Paths) -> Iterator[Survey]:
        """The tools that were found, up to the first that is too much."""
        for _, path in sorted(paths.tools):
            survey = self.survey(path)
            if not paths.budget.take_tool(len(survey.stamps), survey.size, survey.manifest_size):
                paths.complete = False
                return
            yield survey

    def _visit(self, relative: str, path: str, depth: int, paths: _Paths) -> None:
        listing = self._listing(path)
        if listing is None or (place := listing.stamp[:2]) in paths.seen:
            return
        paths.seen.add(place)
        paths.complete &= listing.complete
        is_tool = _is_tool(listing)
        if is_tool:
            paths.tools.append((relative, path))
        if depth >= _MAX_DEPTH:
            return
        prefix = f"{relative}/" if relative else ""
        for name, below in listing.folders:
            paths.waiting.append((prefix + name, below, depth + 1))
        for name, _ in () if is_tool else listing.links:
            below = f"{path}/{name}"
            if Path(below).is_dir():
                real = os.path.realpath(below)
                if Path(real).is_relative_to(paths.real):
                    paths.links.append((prefix + name, real, depth + 1))
                else:
                    paths.skipped.append((prefix + name, "it is a link that leads out of the tools folder"))

    def survey(self, folder: str) -> Survey:
        """Find the files of one tool or one library."""
        collected = _Collected()
        waiting = [("", folder)]
        while waiting:
            prefix, path = waiting.pop()
            listing = self._listing(path)
            if listing is None:
                continue  # removed meanwhile
            if prefix and _is_tool(listing):
                continue
            if listing.problem is not None:
                return Survey(folder, problem=listing.problem)
            collected.stamps.append(listing.stamp)
            if not collected.add(prefix, listing):
                return Survey(folder, problem=f"it has more than {MAX_FILES} files")
            waiting += [(f"{prefix}{name}/", below) for name, below in listing.folders]
        if collected.size > MAX_BYTES:
            return Survey(folder, problem=f"its files are larger than {MAX_BYTES >> 20} MiB together")
        names = tuple(collected.stamps), tuple(collected.files), tuple(collected.links)
        return Survey(folder, *names, collected.size, collected.manifest_size)

    def _listing(self, path: str) -> _Listing | None:
        """The entries of a folder, read again only if it changed; None if it cannot be read."""
        listing = self._known.get(path)
        if listing is not None and listing.check == self._check:
            return listing
        try:
            now = self._wall_ns()
            stamp = file_identity(os.stat(path))
            if listing is None or not listing.settled or listing.stamp != stamp:
                listing = _read(path, stamp, is_settled(stamp, now), self._check)
        except (OSError, ValueError):
            self._known.pop(path, None)
            return None
        listing.check = self._check
        self._known[path] = listing
        return listing


@dataclass(slots=True)
class _Collected:
    stamps: list[FileIdentity] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    size: int = 0
    manifest_size: int = 0

    def add(self, prefix: str, listing: _Listing) -> bool:
        """Add the files of a folder; returns False if there are too many."""
        if len(self.files) + len(self.links) + len(listing.files) + len(listing.links) > MAX_FILES:
            return False
        for name, path in listing.files:
            try:
                status = os.lstat(path)
            except OSError:
                continue  # removed meanwhile
            if stat.S_ISREG(status.st_mode):
                self.stamps.append(file_identity(status))
                self.files.append(prefix + name)
                self.size += status.st_size
                if name == MANIFEST and not prefix:
                    self.manifest_size = status.st_size
        self.links += [(prefix + name, target) for name, target in listing.links]
        if not prefix and any(name == MANIFEST for name, _ in listing.links):
            self.manifest_size = MAX_MANIFEST_BYTES  # that of its target, at most
        return True


def _is_tool(listing: _Listing) -> bool:
    return any(name == MANIFEST for name, _ in (*listing.files, *listing.links))


def _read(path: str, stamp: FileIdentity, settled: bool, check: int) -> _Listing:
    listing = _Listing(stamp, settled, check)
    with os.scandir(path) as entries:
        for number, entry in enumerate(entries):
            if number >= _MAX_ENTRIES:
                listing.problem = f"one of its folders has more than {_MAX_ENTRIES} entries"
                listing.complete = False
                break
            if not _is_hidden(entry.name):
                _add_entry(listing, entry)
    for names in (listing.files, listing.links, listing.folders):
        names.sort()
    return listing


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.endswith("~") or name == "__pycache__"


def _add_entry(listing: _Listing, entry: os.DirEntry[str]) -> None:
    try:
        entry.name.encode()
    except UnicodeEncodeError:
        listing.problem = "the name of one of its files is not UTF-8"
        return
    if entry.is_symlink():
        try:
            target = os.readlink(entry.path)
        except OSError:
            return
        listing.links.append((entry.name, target))
    elif entry.is_dir(follow_symlinks=False):
        listing.folders.append((entry.name, entry.path))
    elif entry.is_file(follow_symlinks=False):
        listing.files.append((entry.name, entry.path))
