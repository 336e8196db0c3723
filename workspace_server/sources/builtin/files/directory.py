"""Reads one directory for a search, with everything that shows later whether it has to be read again.

A directory's times change when an entry is added, removed, renamed or replaced. They have a resolution, so
the times of a directory that changed just before it was read prove nothing. Blocks.

There are thousands of directories, and this takes most of the time of a first search. What is kept of each is
no work for the garbage collector (`gc=False`): nothing in it leads back to it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from lm_tools_bridge.machine.git_worktrees import is_copy, witnesses
from workspace_server.sources.builtin.files.entries import (
    IGNORE_FILES,
    Entries,
    Stamp,
    in_order,
    names_in,
    stamp_of,
)
from workspace_server.sources.builtin.files.ignore import (
    NEVER_SEARCHED,
    IgnoreLevel,
    Tree,
    exclude_file,
    read_ignore_file,
)
from workspace_server.sources.builtin.files.segments import NameTest, Segment

SETTLED_NS: Final = 2_000_000_000
"""What changed less than this before it was read is read again: some file systems have times in seconds."""

_WITH_RULES: Final = frozenset((*IGNORE_FILES, NEVER_SEARCHED))
_NEVER: Final = f"/{NEVER_SEARCHED}/"
IgnoreStamps = tuple[tuple[str, Stamp | None], ...]
"""Ignore files, by path."""


class Place(msgspec.Struct, frozen=True, gc=False):
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
            return cls(path, os.path.realpath(path), stat.S_IFMT(os.stat(path).st_mode))
        except OSError:
            return cls(path, os.path.realpath(path), 0)


class Directory(msgspec.Struct, frozen=True, gc=False):
    """What was read.

    Attributes:
        place: where.
        files: the visible files; None if there are none, and nothing is hidden or a link.
        directories: the names of the visible directories, in order.
        links: of the `directories` that are links, where they lead.
        level: the ignore rules inside.
        suspects: the names that a rule may be about.
        stamp: the directory's; None: read it again each time.
        ignore_files: the stamps of its ignore files, by path; of a git worktree those of what makes it one.
        seen_links: all links in it.
    """

    place: Place
    files: Segment | None
    directories: tuple[str, ...]
    links: Mapping[str, str]
    level: IgnoreLevel | None
    suspects: NameTest
    stamp: Stamp | None
    ignore_files: IgnoreStamps
    seen_links: tuple[Link, ...]


_NO_LINKS: Final[Mapping[str, str]] = {}
_NO_FILES: Final[IgnoreStamps] = ()
_NOT_SEEN: Final[tuple[Link, ...]] = ()


def directory_of(tree: Tree, place: Place, entries: Entries) -> Directory:
    """A directory with these entries, by the rules of the tree."""
    if entries is None:
        return Directory(place, None, (), _NO_LINKS, place.level, place.suspects, None, (), ())
    now, stamp, files, count, inner, links = entries
    witness_stamps = _NO_FILES
    if _NEVER in files and place.base:
        folder = Path(place.path)
        witness_stamps = tuple((str(path), stamp_of(str(path))) for path in witnesses(folder))
        if is_copy(folder):
            return _copy_of_project(place, entries, witness_stamps)
    level, suspects, ignore_files = place.level, place.suspects, witness_stamps
    if (links or "/." in files or "/." in inner) and tree.rules.use_ignore_files:
        level, suspects, ignore_files = _rules_inside(place, {*names_in(files), *names_in(inner), *links})
        ignore_files = (*ignore_files, *witness_stamps)
    if not _is_certain(stamp, ignore_files, now) or place.above or NEVER_SEARCHED in links:
        stamp = None
    if links or suspects.is_in(files) or suspects.is_in(inner) or _NEVER in files or _NEVER in inner:
        visible = _visible(tree, place, (names_in(files), names_in(inner), links), (level, suspects))
    else:
        segment = Segment(place.base, files, count, True) if count else None
        visible = _Visible(segment, tuple(names_in(inner)), _NO_LINKS, _NOT_SEEN)
    return Directory(
        place,
        visible.files,
        visible.directories,
        visible.links,
        level,
        suspects,
        stamp,
        ignore_files,
        visible.seen_links,
    )


def _copy_of_project(place: Place, entries: Entries, witness_stamps: IgnoreStamps) -> Directory:
    """A git worktree inside the tree that it is a copy of: nothing of it is shown."""
    now, stamp, files, _, inner, links = entries or (0, None, "", 0, "", [])
    hidden = {*names_in(files), *names_in(inner), *links} - {NEVER_SEARCHED}
    return Directory(
        place,
        Segment(place.base, "", 0, False, tuple(hidden)),
        (),
        _NO_LINKS,
        place.level,
        place.suspects,
        stamp if _is_certain(stamp, witness_stamps, now) and not place.above else None,
        witness_stamps,
        _NOT_SEEN,
    )


class _Visible(NamedTuple):
    """What is shown of a directory."""

    files: Segment | None
    directories: tuple[str, ...]
    links: Mapping[str, str]
    seen_links: tuple[Link, ...]


def _visible(
    tree: Tree,
    place: Place,
    entries: tuple[list[str], list[str], list[str]],
    rules: tuple[IgnoreLevel | None, NameTest],
) -> _Visible:
    """Leave out what is hidden, and follow links."""
    files, directories, links = entries
    level, suspects = rules
    seen_links, followed = _NOT_SEEN, _NO_LINKS
    if links and tree.rules.follow_symlinks:
        seen_links = tuple(Link.at(f"{place.path}/{name}") for name in links)
        followed = _followed(tree, place, seen_links, files, directories)
    hidden = _hidden(tree, place.base, level, suspects.among(files), suspects.among(directories))
    left_out = {*hidden, NEVER_SEARCHED}
    files = [name for name in files if name not in left_out]
    directories = [name for name in directories if name not in left_out]
    text = in_order(files)
    in_order(directories)
    if not (files or hidden or links):
        return _Visible(None, tuple(directories), followed, seen_links)
    segment = Segment(
        place.base,
        text,
        len(files),
        not (hidden or links),
        tuple(hidden - {NEVER_SEARCHED}),
        _visible_links(seen_links, files, directories),
    )
    return _Visible(segment, tuple(directories), followed, seen_links)


def _visible_links(links: tuple[Link, ...], files: list[str], directories: list[str]) -> tuple[str, ...]:
    """The names of those links that are among the files and directories; the latter end with `/`."""
    if not links:
        return ()
    names = [link.path.rpartition("/")[2] for link in links]
    as_files, as_directories = set(files), set(directories)
    return tuple(
        name if name in as_files else f"{name}/"
        for name in names
        if name in as_files or name in as_directories
    )


def _is_certain(stamp: Stamp | None, ignore_files: IgnoreStamps, now: int) -> bool:
    """Whether equal stamps will mean that nothing changed since `now`, in nanoseconds."""
    latest = now - SETTLED_NS
    if stamp is None or stamp[2] >= latest or stamp[3] >= latest:
        return False
    return not ignore_files or all(
        each is None or (each[2] < latest and each[3] < latest) for _, each in ignore_files
    )


def _hidden(
    tree: Tree, base: str, level: IgnoreLevel | None, files: Sequence[str], directories: Sequence[str]
) -> Set[str]:
    """Those of the names that are ignored or excluded."""
    hides = tree.hides
    hidden = {name for name in files if hides(base + name, level, directory=False)} if files else set()
    if directories:
        hidden.update(name for name in directories if hides(base + name, level, directory=True))
    return hidden


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
    paths = [place.real]
    while paths[-1] != folder:
        paths.append(paths[-1].rpartition("/")[0])
    return tuple(paths)


def _rules_inside(place: Place, names: set[str]) -> tuple[IgnoreLevel | None, NameTest, IgnoreStamps]:
    """The ignore rules inside, the names that they may be about, and the stamps of the ignore files."""
    present = _WITH_RULES & names
    if not present:
        return place.level, place.suspects, _NO_FILES
    folder = Path(place.path)
    repository = NEVER_SEARCHED in present and (folder / NEVER_SEARCHED).exists()
    files = [folder / name if name in present else None for name in IGNORE_FILES]
    if repository and place.base:  # the folder's own is read once for the whole tree
        files.append(exclude_file(folder))
    stamps = tuple((str(path), stamp_of(str(path))) for path in files if path)  # before they are read
    read = tuple(read_ignore_file(path) if path else None for path in files)
    if not (repository or any(read)):
        return place.level, place.suspects, stamps
    suspects = place.suspects
    for file in filter(None, read):
        suspects |= file.names
    return IgnoreLevel(place.level, place.base, read, repository), suspects, stamps
