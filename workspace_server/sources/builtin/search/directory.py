"""Reads one directory for a search, with everything that shows later whether it has to be read again.

A directory's times change when an entry is added, removed, renamed or replaced. They have a resolution, so
the times of a directory that changed just before it was read prove nothing. Blocks.
"""

from __future__ import annotations

import os
import stat
import time
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from workspace_server.sources.builtin.search.ignore import (
    IGNORE_FILES,
    IgnoreLevel,
    read_ignore_file,
)
from workspace_server.sources.builtin.search.names import NameTest
from workspace_server.sources.builtin.search.tree import NEVER_SEARCHED, Tree

SETTLED_NS: Final = 2_000_000_000
"""What changed less than this before it was read is read again: some file systems have times in seconds."""

_WITH_RULES: Final = frozenset((*IGNORE_FILES, NEVER_SEARCHED))
Stamp = tuple[int, int, int, int]
"""Device, inode, times of modification and of change of a directory or an ignore file."""


class Place(NamedTuple):
    """A directory to read.

    Attributes:
        path: its path.
        base: the path relative to the folder, with `/` at its end; "" for the folder.
        real: its path without links.
        level: the ignore rules around it.
        suspects: the names that a rule around it may be about.
        above: the real paths of the directories that it is in, if it was reached over a link.
    """

    path: str
    base: str
    real: str
    level: IgnoreLevel | None
    suspects: NameTest
    above: tuple[str, ...]


class Link(NamedTuple):
    """A link: its path, the real path it leads to, and what is there (`stat.S_IFMT`; 0 if nothing is)."""

    path: str
    real: str
    kind: int

    @classmethod
    def at(cls, path: str) -> Link:
        """Look where a link leads now."""
        try:
            return cls(path, os.path.realpath(path), stat.S_IFMT(os.stat(path).st_mode))  # noqa: PTH116
        except OSError:
            return cls(path, os.path.realpath(path), 0)


class Directory(NamedTuple):
    """What was read.

    Attributes:
        place: where.
        parts: what is visible, in order: names of files, several together, or the name of one directory.
        links: of the directories in `parts` that are links, where they lead.
        level: the ignore rules inside.
        suspects: the names that a rule may be about.
        stamp: the directory's; None: read it again each time.
        ignore_files: the stamps of its ignore files, by path.
        seen_links: all links in it.
        hides: whether something in it is ignored or excluded.
    """

    place: Place
    parts: tuple[tuple[str, ...] | str, ...]
    links: dict[str, str]
    level: IgnoreLevel | None
    suspects: NameTest
    stamp: Stamp | None
    ignore_files: tuple[tuple[str, Stamp | None], ...]
    seen_links: tuple[Link, ...]
    hides: bool


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a path, None if nothing is there."""
    try:
        found = os.stat(path)  # noqa: PTH116  this is called for every directory of a tree
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def read_directory(tree: Tree, place: Place) -> Directory:
    """Read a directory; one that cannot be read is empty."""
    now = time.time_ns()
    stamp = stamp_of(place.path)
    try:
        files, directories, links = _entries(place.path)
    except OSError:
        return Directory(place, (), {}, place.level, place.suspects, None, (), (), False)
    level, suspects, ignore_files = _rules_inside(tree, place, files, directories, links)
    seen_links: tuple[Link, ...] = ()
    followed: dict[str, str] = {}
    if links and tree.rules.follow_symlinks:
        seen_links = tuple(Link.at(f"{place.path}/{name}") for name in links)
        followed = _followed(tree, place, seen_links, files, directories)

    hidden = _hidden(tree, place.base, level, suspects.among(files), suspects.among(directories))
    parts = _visible_parts(files, directories, hidden)
    certain = not (NEVER_SEARCHED in links or place.above) and _is_settled(stamp, now)
    if certain and ignore_files:
        certain = all(each is None or _is_settled(each, now) for _, each in ignore_files)
    return Directory(
        place,
        parts,
        followed,
        level,
        suspects,
        stamp if certain else None,
        ignore_files,
        seen_links,
        bool(hidden),
    )


def _is_settled(stamp: Stamp | None, now: int) -> bool:
    return stamp is not None and now - stamp[2] > SETTLED_NS and now - stamp[3] > SETTLED_NS


def _hidden(
    tree: Tree, base: str, level: IgnoreLevel | None, files: Sequence[str], directories: Sequence[str]
) -> set[str]:
    """Those of the names that are ignored or excluded."""
    hides = tree.hides
    hidden = {name for name in files if hides(base + name, level, directory=False)} if files else set()
    if directories:
        hidden.update(name for name in directories if hides(base + name, level, directory=True))
    return hidden


def _entries(path: str) -> tuple[list[str], list[str], list[str]]:
    """The names of regular files, of directories and of links."""
    with os.scandir(path) as listed:
        entries = list(listed)
    files = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    if len(files) == len(entries):
        return files, [], []
    directories = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    if len(files) + len(directories) == len(entries):
        return files, directories, []
    return files, directories, [entry.name for entry in entries if entry.is_symlink()]


def _followed(
    tree: Tree, place: Place, links: tuple[Link, ...], files: list[str], directories: list[str]
) -> dict[str, str]:
    """Add the links that may be followed to the files and directories; returns where the latter lead."""
    followed: dict[str, str] = {}
    for link in links:
        name = link.path.rpartition("/")[2]
        if not tree.may_follow(Path(link.real)):
            continue
        if link.kind == stat.S_IFREG:
            files.append(name)
        elif link.kind == stat.S_IFDIR and not _is_loop(link.real, place, str(tree.folder.path)):
            directories.append(name)
            followed[name] = link.real
    return followed


def _is_loop(real: str, place: Place, folder: str) -> bool:
    """Whether a walk is already inside the directory that a link leads to."""
    if place.above:
        return real in {*place.above, place.real}
    return real.startswith(folder) and f"{place.real}/".startswith(f"{real}/")


def above_of_link(place: Place, folder: str) -> tuple[str, ...]:
    """The real paths of the directories that a linked directory in this place is in."""
    if place.above:
        return (*place.above, place.real)
    found = [place.real]
    while found[-1] != folder:
        found.append(found[-1].rpartition("/")[0])
    return tuple(found)


def _rules_inside(
    tree: Tree, place: Place, files: list[str], directories: list[str], links: list[str]
) -> tuple[IgnoreLevel | None, NameTest, tuple[tuple[str, Stamp | None], ...]]:
    """The ignore rules inside, the names that they may be about, and the stamps of the ignore files."""
    if not tree.rules.use_ignore_files:
        return place.level, place.suspects, ()
    # for every directory of a tree: nearly all have none
    if (
        _WITH_RULES.isdisjoint(files)
        and _WITH_RULES.isdisjoint(directories)
        and _WITH_RULES.isdisjoint(links)
    ):
        return place.level, place.suspects, ()
    names = {*files, *directories, *links}
    present = [name for name in (*IGNORE_FILES, NEVER_SEARCHED) if name in names]
    paths = [f"{place.path}/{name}" for name in present if name != NEVER_SEARCHED]
    stamps = tuple((path, stamp_of(path)) for path in paths)  # before they are read
    folder = Path(place.path)
    read = tuple(read_ignore_file(folder / name) if name in present else None for name in IGNORE_FILES)
    repository = NEVER_SEARCHED in present and (folder / NEVER_SEARCHED).exists()
    if not (repository or any(read)):
        return place.level, place.suspects, stamps
    suspects = place.suspects
    for file in filter(None, read):
        suspects |= file.names
    return IgnoreLevel(place.level, place.base, read, repository), suspects, stamps


def _visible_parts(
    files: list[str], directories: list[str], hidden: set[str]
) -> tuple[tuple[str, ...] | str, ...]:
    """What is visible, in order."""
    if NEVER_SEARCHED in files or not hidden.isdisjoint(files):
        files = [name for name in files if name not in hidden and name != NEVER_SEARCHED]
    inner = [name for name in directories if name not in hidden and name != NEVER_SEARCHED]
    if not inner:
        return (tuple(_in_order(files)),) if files else ()
    ordered, inner = _in_order(files), _in_order(inner)
    parts: list[tuple[str, ...] | str] = []
    begin = 0
    for name in inner:
        end = _place_in(ordered, name, begin)
        if begin < end:
            parts.append(tuple(ordered[begin:end]))
        parts.append(name)
        begin = end
    if begin < len(ordered):
        parts.append(tuple(ordered[begin:]))
    return tuple(parts)


def _place_in(ordered: list[str], name: str, begin: int) -> int:
    """How many of the ordered names come before this one; it comes after the first `begin`."""
    if name.isascii() and "".join(ordered).isascii():
        return bisect_left(ordered, name, begin)
    return bisect_left(ordered, os.fsencode(name), begin, key=os.fsencode)


def _in_order(names: list[str]) -> list[str]:
    """The names by their bytes; of ASCII, the characters have the same order and are compared faster."""
    if "".join(names).isascii():
        return sorted(names)
    return sorted(names, key=os.fsencode)
