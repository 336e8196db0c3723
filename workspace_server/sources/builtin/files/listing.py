"""Lists the visible files of a folder, and keeps the list for the next time.

The order is that of a walk: the files of a directory by the bytes of their names, then its directories, each
with all that is in it.

An answer is never stale: before a kept list is used, the times of every directory and ignore file, and the
targets of every link are compared with those it was made from. Only what changed is read again. Blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine.disks import are_local
from workspace_server.sources.builtin.files.directory import (
    Directory,
    Link,
    Place,
    above_of_link,
    directory_of,
)
from workspace_server.sources.builtin.files.entries import stamp_of
from workspace_server.sources.builtin.files.ignore import Tree
from workspace_server.sources.builtin.files.read_ahead import ReadAhead
from workspace_server.sources.builtin.files.segments import NameTest, Segment

MAX_KEPT_FILES: Final = 250_000
"""The list of a larger tree is not kept; 62,838 files take 7 MB."""
# A check is one `stat`, mostly: a thousand take milliseconds, and a stopped search ends soon enough.
_CHECKS_PER_LOOK: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Kept:
    """A complete list of a tree, its directories by their base."""

    tree: Tree
    directories: Mapping[str, Directory]
    segments: tuple[Segment, ...]
    hides: bool


class Listing:
    """The visible files of one folder under one set of rules. May be used by several threads."""

    def __init__(self) -> None:
        self._kept: _Kept | None = None

    @property
    def hides(self) -> bool:
        """Whether the last complete list leaves ignored or excluded entries out; True if there is none."""
        listing = self._kept
        return listing is None or listing.hides

    def segments(self, tree: Tree, stop: Callable[[], bool]) -> Iterator[Segment]:
        """All visible regular files, in walk order, as they are now. Ends early once `stop()` is true."""
        is_local = are_local([tree.folder.path])
        listing = self._kept if is_local else None
        known: Mapping[str, Directory] = {}
        if listing is not None and listing.tree == tree:
            known, is_same = _unchanged(listing.directories, stop)
            if is_same:
                yield from listing.segments
                return
        segments: list[Segment] | None = []
        count = 0
        directories: dict[str, Directory] = {}
        # a process that reads a disk that hangs cannot be ended
        ahead = ReadAhead(is_useful=is_local and not known)
        for segment in _walk(tree, known, directories, ahead, stop):
            yield segment
            count += segment.count
            if count > MAX_KEPT_FILES:
                segments = None
                directories.clear()
            elif segments is not None:
                segments.append(segment)
        if segments is not None and not stop():
            hides = any(segment.hidden for segment in segments)
            self._kept = _Kept(tree, directories, tuple(segments), hides)


class Listings:
    """The lists of the folders of a workspace, with and without ignored files."""

    def __init__(self) -> None:
        self._listings: dict[tuple[Path, bool], Listing] = {}

    def of(self, folder: Path, *, include_ignored: bool) -> Listing:
        """The list of one folder."""
        return self._listings.setdefault((folder, include_ignored), Listing())

    def forget(self) -> None:
        """Free the memory of all lists; the next search makes them anew."""
        self._listings.clear()


def _unchanged(
    directories: Mapping[str, Directory], stop: Callable[[], bool]
) -> tuple[Mapping[str, Directory], bool]:
    """The directories that need not be read again, and whether these are all."""
    changed: list[str] = []
    for number, (base, directory) in enumerate(directories.items()):
        if (
            directory.stamp is None
            or stamp_of(directory.place.path) != directory.stamp
            or ((directory.ignore_files or directory.seen_links) and not _holds(directory))
        ):
            changed.append(base)
        if number % _CHECKS_PER_LOOK == 0 and stop():
            return {}, False
    if not changed:
        return directories, True
    unchanged = dict(directories)
    for base in changed:
        del unchanged[base]
    return unchanged, False


def _holds(directory: Directory) -> bool:
    """Whether the ignore files and links of a directory are as they were."""
    return all(stamp_of(path) == stamp for path, stamp in directory.ignore_files) and all(
        Link.at(link.path) == link for link in directory.seen_links
    )


def _walk(
    tree: Tree,
    known: Mapping[str, Directory],
    found: dict[str, Directory],
    ahead: ReadAhead,
    stop: Callable[[], bool],
) -> Iterator[Segment]:
    """Walk the tree, read the directories that are not known, and add all to `found`."""
    waiting = [_top(tree)]
    with closing(ahead):
        while waiting and not stop():
            place = waiting.pop()
            here = known.get(place.base)
            if here is None or not _is_same(here.place, place):
                here = directory_of(tree, place, ahead.entries(place, waiting))
            found[place.base] = here
            if here.files is not None:
                yield here.files
            if here.directories:
                waiting += [_inside(tree, here, name) for name in reversed(here.directories)]


def _is_same(old: Place, new: Place) -> bool:
    """Whether what was read at a place would be the same at the other, if nothing changed in it."""
    return old.level is new.level and old.real == new.real and old.above == new.above


def _top(tree: Tree) -> Place:
    """The folder itself."""
    path = str(tree.folder.path)
    rules = [NameTest.of(glob.rsplit("/", 1)[-1] for glob in tree.excludes.globs)]
    rules += [file.names for file in tree.extra]
    return Place(path, "", path, None, reduce(NameTest.__or__, rules), ())


def _inside(tree: Tree, here: Directory, name: str) -> Place:
    """A directory in another one, which may be a link."""
    place = here.place
    path, base = f"{place.path}/{name}", f"{place.base}{name}/"
    real = here.links.get(name)
    if real is not None:
        above = above_of_link(place, str(tree.folder.path))
        return Place(path, base, real, here.level, here.suspects, above)
    above = (*place.above, place.real) if place.above else ()
    real = path if place.real is place.path else f"{place.real}/{name}"
    return Place(path, base, real, here.level, here.suspects, above)
