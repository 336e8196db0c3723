"""Determines whether folders are on local disks, and words errors of disks and files.

Standard library only and quick to import: short command line verbs use it.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

_CLAUSES: Final = {
    errno.EROFS: "{path} is on a read-only file system",
    errno.ENOSPC: "the disk of {path} is full",
    errno.EDQUOT: "the disk quota for {path} is used up",
    errno.EACCES: "this user may not write {path}",
    errno.EPERM: "this user may not write {path}",
    errno.ENOENT: "{path} does not exist",
    errno.ENOTDIR: "a file is in the place of a folder of {path}",
    errno.EIO: "the disk of {path} fails",
}


def worded(error: Exception) -> str:
    """Why something could not be written, without the number of the error."""
    if not isinstance(error, OSError):
        return str(error)
    if error.filename is None:
        return error.strerror or str(error)
    clause = _CLAUSES.get(error.errno or 0)
    if clause is None:
        return f"{error.strerror or os.strerror(error.errno or 0)}: {error.filename}"
    return clause.format(path=error.filename)


_MOUNTS: Final = Path("/proc/self/mountinfo")
_LOCAL: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


def are_local(folders: Iterable[Path], mounts: Path = _MOUNTS) -> bool:
    """Whether these folders, and everything mounted below them, are on local disks. Blocks.

    False if unknown.
    """
    try:
        kinds = _mounts(mounts)
        return all(_kinds_in(os.path.realpath(folder), kinds) <= _LOCAL for folder in folders)
    except (OSError, ValueError, IndexError):
        return False


def _mounts(file: Path) -> dict[str, str]:
    """Mount points and their file system types; a later mount hides an earlier one on the same point."""
    mounts = {}
    for line in file.read_text("utf-8", "surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        point = _ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), before.split(" ")[4])
        mounts[point] = after.split(" ")[0]
    return mounts


def _kinds_in(folder: str, kinds: Mapping[str, str]) -> set[str | None]:
    """The types of the file systems of a folder and below it; None for one that is not known."""
    place, below = folder, f"{folder.rstrip('/')}/"
    # the root of a drive, as Z:\, is its own parent, too
    while place not in kinds and (above := os.path.dirname(place)) != place:  # noqa: PTH120 - texts
        place = above
    return {kinds.get(place), *(kind for point, kind in kinds.items() if point.startswith(below))}
