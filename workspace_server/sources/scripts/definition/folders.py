"""Finds tool folders and their files: one walk per request, with `stat` calls only.

Names that begin with a dot, `__pycache__` and `*~` are skipped. A folder below a tool that has its own
`tool.toml` is a tool of its own. `bundle.py` reads the contents.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from workspace_server.files.file_identity import FileIdentity, file_identity, is_settled

MANIFEST: Final = "tool.toml"
MAX_FILES: Final = 200
MAX_BYTES: Final = 8 * 1024 * 1024
MAX_TOOLS: Final = 2_000
MAX_FOLDERS: Final = 10_000
_MAX_ENTRIES: Final = 5_000
_MAX_DEPTH: Final = 32


@dataclass(frozen=True, slots=True)
class Survey:
    """The files of one folder as they are now.

    Attributes:
        folder: its absolute path.
        stamps: every file and folder with what the file system knows of it; equal where nothing changed.
        files: relative names, `/` between parts.
        links: the same of symbolic links, with their targets.
        problem: why the folder cannot be taken as a whole.
    """

    folder: str
    stamps: tuple[FileIdentity, ...] = ()
    files: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Walk:
    """One walk through a tools folder: its tools in the order of their paths, and what it left out.

    `complete` is false where there was more than may be looked at.
    """

    tools: tuple[Survey, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    complete: bool = True


@dataclass(slots=True)
class _Listing:
    """The entries of one folder, valid while its stamp is."""

    stamp: FileIdentity
    settled: bool
    look: int
    files: list[tuple[str, str]] = field(default_factory=list)  # name, path
    links: list[tuple[str, str]] = field(default_factory=list)  # name, target
    folders: list[tuple[str, str]] = field(default_factory=list)  # name, path
    problem: str | None = None


@dataclass(slots=True)
class _Paths:
    root: str
    real: str
    waiting: list[tuple[str, str, int]]
    links: list[tuple[str, str, int]] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)
    tools: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


class Tree:
    """Remembers what folders hold while they do not change. Every method blocks; for one thread at a time.

    Args:
        wall_ns: the wall clock in nanoseconds since 1970.
    """

    def __init__(self, wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._wall_ns = wall_ns
        self._known: dict[str, _Listing] = {}
        self._look = 0

    def begin(self) -> None:
        """A new look at everything: from here on nothing is believed without a `stat`."""
        self._look += 1

    def forget(self) -> None:
        """Forget the folders that this look did not come by."""
        self._known = {path: known for path, known in self._known.items() if known.look == self._look}

    @property
    def looked_at(self) -> Iterator[str]:
        """The folders and files that are known."""
        for path, listing in self._known.items():
            yield path
            yield from (file for _, file in listing.files)

    @property
    def has_no_links(self) -> bool:
        """Whether nothing among them is a link."""
        return not any(listing.links for listing in self._known.values())

    def walk(self, root: Path) -> Walk:
        """The tools below `root`, at any depth; none where it is missing."""
        paths = _Paths(str(root), os.path.realpath(root), [("", str(root), 0)])
        complete = True
        while paths.waiting or paths.links:
            # links last: what they lead to is mostly known under its real name by then
            relative, path, depth = (paths.waiting or paths.links).pop()
            if len(paths.seen) >= MAX_FOLDERS or len(paths.tools) >= MAX_TOOLS:
                complete = False
                break
            self._visit(relative, path, depth, paths)
        tools = tuple(self.survey(path) for _, path in sorted(paths.tools))
        return Walk(tools, tuple(paths.skipped), complete)

    def _visit(self, relative: str, path: str, depth: int, paths: _Paths) -> None:
        listing = self._listing(path)
        if listing is None or (place := listing.stamp[:2]) in paths.seen:
            return
        paths.seen.add(place)
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
        """The files of one tool, or of one library, as they are now."""
        found = _Collected()
        waiting = [("", folder)]
        while waiting:
            prefix, path = waiting.pop()
            listing = self._listing(path)
            if listing is None:
                continue  # vanished meanwhile
            if prefix and _is_tool(listing):
                continue
            if listing.problem is not None:
                return Survey(folder, problem=listing.problem)
            found.stamps.append(listing.stamp)
            if not found.add(prefix, listing):
                return Survey(folder, problem=f"it has more than {MAX_FILES} files")
            waiting += [(f"{prefix}{name}/", below) for name, below in listing.folders]
        if found.size > MAX_BYTES:
            return Survey(folder, problem=f"its files are larger than {MAX_BYTES >> 20} MiB together")
        return Survey(folder, tuple(found.stamps), tuple(found.files), tuple(found.links))

    def _listing(self, path: str) -> _Listing | None:
        """The entries of a folder, read again only if it changed; None where it is gone or closed to us."""
        known = self._known.get(path)
        if known is not None and known.look == self._look:
            return known
        try:
            now = self._wall_ns()
            stamp = file_identity(os.stat(path))  # noqa: PTH116  half the time of the same with a Path
            if known is None or not known.settled or known.stamp != stamp:
                known = _read(path, stamp, is_settled(stamp, now), self._look)
        except (OSError, ValueError):
            self._known.pop(path, None)
            return None
        known.look = self._look
        self._known[path] = known
        return known


@dataclass(slots=True)
class _Collected:
    stamps: list[FileIdentity] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    size: int = 0

    def add(self, prefix: str, listing: _Listing) -> bool:
        """Take the files of a folder in; whether there are not too many."""
        if len(self.files) + len(self.links) + len(listing.files) + len(listing.links) > MAX_FILES:
            return False
        for name, path in listing.files:
            try:
                status = os.lstat(path)
            except OSError:
                continue  # vanished meanwhile
            if stat.S_ISREG(status.st_mode):
                self.stamps.append(file_identity(status))
                self.files.append(prefix + name)
                self.size += status.st_size
        self.links += [(prefix + name, target) for name, target in listing.links]
        return True


def _is_tool(listing: _Listing) -> bool:
    return any(name == MANIFEST for name, _ in (*listing.files, *listing.links))


def _read(path: str, stamp: FileIdentity, settled: bool, look: int) -> _Listing:
    listing = _Listing(stamp, settled, look)
    with os.scandir(path) as entries:
        for number, entry in enumerate(entries):
            if number >= _MAX_ENTRIES:
                listing.problem = f"a folder of it has more than {_MAX_ENTRIES} entries"
                break
            if not _is_hidden(entry.name):
                _sort_in(listing, entry)
    for names in (listing.files, listing.links, listing.folders):
        names.sort()
    return listing


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.endswith("~") or name == "__pycache__"


def _sort_in(listing: _Listing, entry: os.DirEntry[str]) -> None:
    try:
        entry.name.encode()
    except UnicodeEncodeError:
        listing.problem = "the name of one of its files is not UTF-8"
        return
    if entry.is_symlink():
        try:
            target = os.readlink(entry.path)  # noqa: PTH115  the text is wanted
        except OSError:
            return
        listing.links.append((entry.name, target))
    elif entry.is_dir(follow_symlinks=False):
        listing.folders.append((entry.name, entry.path))
    elif entry.is_file(follow_symlinks=False):
        listing.files.append((entry.name, entry.path))
