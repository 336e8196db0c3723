"""Looks at all relevant files of a project with `scandir` and `stat`. Blocks."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.tree.relevant_files import (
    GENERATED_MARKS,
    SKIPPED_FOLDERS,
    Relevance,
)
from lm_tools_bridge.code_intelligence.tree.tree_changes import FileState, Snapshot
from lm_tools_bridge.machine import regular_file
from lm_tools_bridge.machine.git_worktrees import is_copy

MAX_ENTRIES: Final = 200_000
"""Files and folders of one look, which takes about a second then; larger projects are looked at in part."""
MAX_DIGESTED: Final = 1024 * 1024
"""Bytes: a larger file counts as changed once more, which costs less than to read it."""
MAX_LINKS: Final = 100
"""Links of which all names of the files behind them are told; each multiplies those files."""
MAX_LINKS_SEEN: Final = 5_000
"""Of other links than to files of a language: so many are asked where they lead."""


@dataclass(frozen=True, slots=True)
class Held:
    """What of an earlier look is known to hold, so that these files need not be asked for their state.

    Attributes:
        files: the states of files that did not change.
        changed: folders of which, with everything below them, nothing holds.
    """

    files: Mapping[str, FileState] = field(default_factory=dict)
    changed: Set[str] = frozenset()


NOTHING: Final = Held()


def scan(
    folders: Sequence[Path],
    relevance: Relevance,
    limit: int = MAX_ENTRIES,
    *,
    wall_ns: Callable[[], int] = time.time_ns,
    before_listing: Callable[[str], object] = lambda folder: None,
    held: Held = NOTHING,
) -> Snapshot:
    """The relevant files below these folders, shallow ones first, of at most `limit` entries.

    Folders of dependencies, caches and build trees are not entered, nor are git worktrees inside the tree
    that they are copies of; of build trees the project files directly in them count, such as
    `build/compile_commands.json`. Links to folders are not followed, but named; a link to a file is a file
    with its own state and that of its target, if the target lies in one of the folders.

    Args:
        folders: absolute and link-free.
        relevance: which files matter.
        limit: how many entries are looked at.
        wall_ns: the wall clock.
        before_listing: called with each folder before it is listed.
        held: the states that are not asked for again.
    """
    look = _Look(folders, relevance, limit, before_listing, held)
    taken_ns = wall_ns()
    look.run()
    return Snapshot(
        look.files,
        relevance,
        taken_ns,
        look.is_cut,
        frozenset(look.listed) if look.is_incomplete else None,
        elsewhere=frozenset(look.elsewhere),
        generated=frozenset(look.generated),
        copies=frozenset(look.copies),
        links=_to_ours(look),
        links_out=tuple(link for link in look.links if not _lies_in(os.path.realpath(link), look.roots)),
    )


def state_of(path: str, folders: Sequence[Path]) -> tuple[FileState | None, bool]:
    """The state of one file as a look finds it, and whether it may change without its folder noticing.

    The state is None if nothing is there, or a folder.
    """
    is_link = False
    try:
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode):
            return None, False
        is_link = stat.S_ISLNK(status.st_mode)
        state = (status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino)
        if is_link:
            return _with_target(path, state, [str(folder) for folder in folders]), True
        return state, status.st_nlink > 1
    except OSError:
        return None, is_link


def digest(path: str) -> bytes | None:
    """The digest of a file's content; None if it cannot be read, or is larger than `MAX_DIGESTED` bytes."""
    try:
        content = regular_file.read_bytes(Path(path), MAX_DIGESTED)
    except OSError:
        return None
    return hashlib.blake2b(content, digest_size=16).digest()


class _Look:
    """One walk over the folders."""

    def __init__(
        self,
        folders: Sequence[Path],
        relevance: Relevance,
        limit: int,
        before_listing: Callable[[str], object],
        held: Held,
    ) -> None:
        self.files: dict[str, FileState] = {}
        self.listed: list[str] = []
        self.elsewhere: list[str] = []
        self.generated: list[str] = []
        self.copies: list[str] = []
        self.links: list[str] = []
        self.is_cut = False
        self.is_incomplete = False
        self.roots = tuple(dict.fromkeys(str(folder) for folder in folders))
        self._names = relevance.names
        self._suffixes = relevance.suffixes
        self._left = limit
        self._before_listing = before_listing
        self._held = held.files
        self._changed = set(held.changed)

    def run(self) -> None:
        """Walk until there is nothing left, or the limit is reached."""
        inner = {root for root in self.roots if _lies_in(os.path.dirname(root), self.roots)}
        waiting = deque(root for root in self.roots if root not in inner)
        while waiting and not self.is_cut:
            self._list(waiting.popleft(), waiting)

    def _list(self, folder: str, waiting: deque[str]) -> None:
        self._before_listing(folder)
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except (FileNotFoundError, NotADirectoryError):
            self.listed.append(folder)  # gone, and with it its files
            return
        except OSError:
            self.is_incomplete = True  # its files are neither seen nor known to be gone
            return
        if len(entries) > self._left:
            self.is_cut = self.is_incomplete = True
            return
        self._left -= len(entries)
        self.listed.append(folder)
        names, is_changed = self._names, folder in self._changed
        held = NOTHING.files if is_changed else self._held
        if folder not in self.roots and not GENERATED_MARKS.isdisjoint([entry.name for entry in entries]):
            self.generated.append(folder)
            self._files([entry for entry in entries if entry.name in names and not entry.is_dir()], held)
            return
        if folder not in self.roots and _is_copy(folder, entries):
            self.copies.append(folder)
            return
        suffixes = self._suffixes
        files = []
        for entry in entries:  # hundreds of thousands: without a call for each
            name = entry.name
            if entry.is_dir(follow_symlinks=False):
                if name not in SKIPPED_FOLDERS:
                    waiting.append(entry.path)
                    if is_changed:
                        self._changed.add(entry.path)
            elif name[name.rfind(".") :] in suffixes or name in names:
                files.append(entry)
            elif entry.is_symlink() and len(self.links) < MAX_LINKS_SEEN:
                self.links.append(entry.path)
        self._files(files, held)

    def _files(self, entries: Sequence[os.DirEntry[str]], held: Mapping[str, FileState]) -> None:
        files = self.files
        for entry in entries:
            path = entry.path
            state_held = held.get(path)
            if state_held is not None:
                files[path] = state_held
                continue
            try:
                status = entry.stat(follow_symlinks=False)
                state = (status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino)
                if entry.is_symlink():
                    self.elsewhere.append(path)
                    self.links.append(path)
                    state = _with_target(path, state, self.roots)
                elif status.st_nlink > 1:
                    self.elsewhere.append(path)
                files[path] = state
            except OSError:  # it went away, or is a link to a folder or to nothing
                continue


def _is_copy(folder: str, entries: Sequence[os.DirEntry[str]]) -> bool:
    return any(entry.name == ".git" and entry.is_file() for entry in entries) and is_copy(Path(folder))


def _with_target(path: str, link: FileState, roots: Sequence[str]) -> FileState:
    """The state of a link: the later time, and what the target is, if that is ours to look at.

    Raises:
        OSError: it leads to a folder or to nothing.
    """
    real = os.path.realpath(path, strict=True)
    status = os.stat(real)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(path)
    if not _lies_in(real, roots):
        return link
    later = max(link[0], status.st_ctime_ns)
    return later, status.st_mtime_ns, status.st_size, link[3] ^ status.st_ino


def _to_ours(look: _Look) -> Mapping[str, str]:
    """The links to folders that were listed, and to files that were found; none to a folder above itself."""
    folders = set(look.listed) if look.links else set()
    targets = {link: os.path.realpath(link) for link in look.links[:MAX_LINKS]}
    return {
        link: to
        for link, to in targets.items()
        if to in look.files or (to in folders and not link.startswith(f"{to}/"))
    }


def _lies_in(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)
