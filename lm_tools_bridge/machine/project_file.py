"""Reads and writes files of projects through the descriptors of their folders; no link is followed. Blocks.

A program of a project can put a link in the place of a folder at any moment, also while a person is asked. A
write by path would then reach a file of the user's own. So every component of a path is opened without
following links, and the file is read and written through the folder that was opened. Paths must be real at
their beginning: a link above the project counts, too.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine import file_calls, private_files
from lm_tools_bridge.machine.private_files import UnsafePathError

FolderIdentity = tuple[int, int]
"""Device and inode of a folder."""
_PASS_THROUGH: Final = getattr(os, "O_PATH", os.O_RDONLY)
"""A folder above the file needs to be entered only; not every user may list `/home`."""
_FOLDER: Final = file_calls.FOLDER | file_calls.NO_LINK | file_calls.CLOSE_ON_EXEC
_HAS_DESCRIPTORS: Final = sys.platform != "win32"


@dataclass(frozen=True, slots=True)
class HeldFolder:
    """A folder that is open. What its path leads to by now does not matter.

    Attributes:
        path: where it was opened.
        descriptor: None on Windows, which opens no files by the descriptor of a folder.
        made: the folders that were made for it, outermost first.
    """

    path: Path
    descriptor: int | None
    made: tuple[Path, ...] = ()

    @property
    def identity(self) -> FolderIdentity:
        """What no other folder has while this one is open."""
        status = self.path.stat() if self.descriptor is None else os.fstat(self.descriptor)
        return status.st_dev, status.st_ino

    def status(self, name: str) -> os.stat_result | None:
        """The status of an entry, of a link its own; None if there is none."""
        try:
            return os.stat(self._place(name), dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def read(self, name: str, limit: int) -> bytes | None:
        """The content of a file; None if there is none. Raises like `private_files.read`."""
        status = self.status(name)
        if status is not None and stat.S_ISLNK(status.st_mode):
            raise _link(self.path / name)
        try:
            return private_files.read(self._place(name), limit, private=False, folder=self.descriptor)
        except UnsafePathError as error:  # names it by its name alone
            file = self.path / name
            raise UnsafePathError(
                file, error.reason, error.hint.replace(str(error.path), str(file))
            ) from None

    def write(self, name: str, content: bytes, mode: int = 0o600) -> None:
        """Replace a file atomically. Raises like `private_files.write`."""
        private_files.write(self._place(name), content, mode, folder=self.descriptor)

    def remove(self, name: str) -> None:
        """Remove a file.

        Raises:
            OSError: it cannot be removed.
        """
        os.unlink(self._place(name), dir_fd=self.descriptor)

    def make_folder(self, name: str) -> None:
        """Make a folder, if there is nothing of that name. Raises like `remove`."""
        with suppress(FileExistsError):
            os.mkdir(self._place(name), dir_fd=self.descriptor)

    def move(self, name: str, other: str) -> None:
        """Put a file of this folder in the place of another one. Raises like `remove`."""
        file_calls.replace(self._place(name), self._place(other), self.descriptor)

    def link(self, name: str, other: str) -> None:
        """Give a file of this folder a second name, which must not exist. Raises like `remove`."""
        os.link(self._place(name), self._place(other), src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def _place(self, name: str) -> Path:
        return self.path / name if self.descriptor is None else Path(name)


@contextmanager
def held(folder: Path, make: int | None = None) -> Iterator[HeldFolder]:
    """Open a folder by its absolute path.

    Args:
        folder: the folder.
        make: the mode of folders that are made if they are missing; None makes none.

    Raises:
        UnsafePathError: a component is a link or no folder.
        OSError: a component is missing, or cannot be opened.
    """
    new_folders: list[Path] = []
    if not _HAS_DESCRIPTORS:
        _check_by_path(folder, make, new_folders)
        yield HeldFolder(folder, None, tuple(new_folders))
        return
    descriptor = os.open(folder.anchor, _PASS_THROUGH | _FOLDER)
    try:
        for place in (*reversed(folder.parents[:-1]), folder):
            flags = (os.O_RDONLY if place == folder else _PASS_THROUGH) | _FOLDER
            below = _open_folder(place, descriptor, flags, make, new_folders)
            os.close(descriptor)
            descriptor = below
        yield HeldFolder(folder, descriptor, tuple(new_folders))
    finally:
        os.close(descriptor)


def read(file: Path, limit: int) -> bytes | None:
    """The content of a file; None if it or a folder is missing.

    Raises:
        UnsafePathError: a component is a link, a folder is none, or the file is no regular one or too large.
        OSError: it cannot be read.
    """
    try:
        with held(file.parent) as folder:
            return folder.read(file.name, limit)
    except FileNotFoundError:
        return None


def remove_if_empty(folder: Path) -> None:
    """Remove a folder without entries; another one stays."""
    with suppress(OSError, UnsafePathError), held(folder.parent) as above:
        os.rmdir(folder if above.descriptor is None else folder.name, dir_fd=above.descriptor)


def _open_folder(place: Path, above: int, flags: int, make: int | None, new_folders: list[Path]) -> int:
    try:
        return os.open(place.name, flags, dir_fd=above)
    except FileNotFoundError:
        if make is None:
            raise
        with suppress(FileExistsError):  # another program made it meanwhile
            os.mkdir(place.name, make, dir_fd=above)
            new_folders.append(place)
        return os.open(place.name, flags, dir_fd=above)
    except OSError:
        status = os.stat(place.name, dir_fd=above, follow_symlinks=False)
        _refuse_link(place, status)
        raise


def _refuse_link(place: Path, status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise _link(place)
    if not stat.S_ISDIR(status.st_mode):
        raise UnsafePathError(place, "is not a folder", f"remove {place}")


def _link(place: Path) -> UnsafePathError:
    hint = f"put what it leads to in the place of the link {place}, or remove it"
    return UnsafePathError(place, "is a symbolic link", hint)


def _check_by_path(folder: Path, make: int | None, new_folders: list[Path]) -> None:
    for place in (*reversed(folder.parents[:-1]), folder):
        try:
            status = place.lstat()
        except FileNotFoundError:
            if make is None:
                raise
            with suppress(FileExistsError):  # another program made it meanwhile
                place.mkdir(make)
                new_folders.append(place)
                continue
            status = place.lstat()
        _refuse_link(place, status)
