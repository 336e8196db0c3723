"""Reads one directory for a search, with everything that shows later whether it has to be read again.

A directory's times change when an entry is added, removed, renamed or replaced. They have a resolution, so
the times of a directory that changed just before it was read prove nothing. Blocks.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
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

    hides_some = False

    def hides(name: str, is_directory: bool) -> bool:
        nonlocal hides_some
        hidden = tree.hides(place.base + name, level, directory=is_directory)
        hides_some = hides_some or hidden
        return hidden

    parts = _visible_parts(suspects, files, directories, hides)
    stamps = [stamp, *(each for _, each in ignore_files if each is not None)]
    settled = all(
        each is not None and now - each[2] > SETTLED_NS and now - each[3] > SETTLED_NS for each in stamps
    )
    certain = settled and not (NEVER_SEARCHED in links or place.above)
    return Directory(
        place=place,
        parts=parts,
        links=followed,
        level=level,
        suspects=suspects,
        stamp=stamp if certain else None,
        ignore_files=ignore_files,
        seen_links=seen_links,
        hides=hides_some,
    )


def _entries(path: str) -> tuple[list[str], list[str], list[str]]:
    """The names of regular files, of directories and of links."""
    files: list[str] = []
    directories: list[str] = []
    links: list[str] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                files.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            elif entry.is_symlink():
                links.append(entry.name)
    return files, directories, links


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
    tree: Tree, place: Place, *names: list[str]
) -> tuple[IgnoreLevel | None, NameTest, tuple[tuple[str, Stamp | None], ...]]:
    """The ignore rules inside, the names that they may be about, and the stamps of the ignore files."""
    if not tree.rules.use_ignore_files:
        return place.level, place.suspects, ()
    present = [name for name in (*IGNORE_FILES, NEVER_SEARCHED) if any(name in each for each in names)]
    if not present:
        return place.level, place.suspects, ()
    paths = [f"{place.path}/{name}" for name in present if name != NEVER_SEARCHED]
    stamps = tuple((path, stamp_of(path)) for path in paths)  # before they are read
    folder = Path(place.path)
    files = tuple(read_ignore_file(folder / name) if name in present else None for name in IGNORE_FILES)
    repository = NEVER_SEARCHED in present and (folder / NEVER_SEARCHED).exists()
    if not (repository or any(files)):
        return place.level, place.suspects, stamps
    suspects = place.suspects
    for file in filter(None, files):
        suspects |= file.names
    return IgnoreLevel(place.level, place.base, files, repository), suspects, stamps


def _visible_parts(
    suspects: NameTest, files: list[str], directories: list[str], hides: Callable[[str, bool], bool]
) -> tuple[tuple[str, ...] | str, ...]:
    """What is visible, in order. `hides` is asked for a name and whether it is a directory."""
    hidden = {name for name in suspects.among(files) if hides(name, False)}
    hidden.update(name for name in suspects.among(directories) if hides(name, True))
    hidden.add(NEVER_SEARCHED)
    if not hidden.isdisjoint(files):
        files = [name for name in files if name not in hidden]
    inner = set(directories) - hidden
    if not inner:
        return (tuple(_in_order(files)),) if files else ()
    names = _in_order([*files, *inner])
    parts: list[tuple[str, ...] | str] = []
    begin = 0
    for index, name in enumerate(names):
        if name in inner:
            if begin < index:
                parts.append(tuple(names[begin:index]))
            parts.append(name)
            begin = index + 1
    if begin < len(names):
        parts.append(tuple(names[begin:]))
    return tuple(parts)


def _in_order(names: list[str]) -> list[str]:
    """The names by their bytes; of ASCII, the characters have the same order and are compared faster."""
    if "".join(names).isascii():
        return sorted(names)
    return sorted(names, key=os.fsencode)
