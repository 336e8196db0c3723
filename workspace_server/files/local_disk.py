"""Determines whether folders are on local disks, where file operations are quick and times are exact.

Network and FUSE file systems may hang for minutes and are read in threads, although handing work to a thread
costs several times as much as a local read. They may also answer from caches, and change without a new time.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

_MOUNTS: Final = Path("/proc/self/mountinfo")
_LOCAL: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)
LOOK_AGAIN_S: Final = 10.0
_P = ParamSpec("_P")
_T = TypeVar("_T")
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


class LocalFiles:
    """Runs short file operations at once where that cannot hang, else in a thread.

    Args:
        folders: absolute and link-free.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folders)
        self._begins = tuple(f"{str(folder).rstrip('/')}/" for folder in folders)
        self._are_local = False
        self._look_at = 0.0

    async def run(
        self, paths: Iterable[Path], function: Callable[_P, _T], *args: _P.args, **named: _P.kwargs
    ) -> _T:
        """The result of a function that looks at these paths; they have no links."""
        now = asyncio.get_running_loop().time()
        if now >= self._look_at:
            # the look itself may hang
            self._are_local, self._look_at = (
                await asyncio.to_thread(are_local, self._folders),
                now + LOOK_AGAIN_S,
            )
        if self._are_local and all(str(path).startswith(self._begins) for path in paths):
            return function(*args, **named)
        return await asyncio.to_thread(function, *args, **named)


def _mounts(file: Path) -> dict[str, str]:
    """Mount points and their file system types; a later mount hides an earlier one on the same point."""
    found = {}
    for line in file.read_text("utf-8", "surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        point = _ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), before.split(" ")[4])
        found[point] = after.split(" ")[0]
    return found


def _kinds_in(folder: str, kinds: Mapping[str, str]) -> set[str | None]:
    """The types of the file systems of a folder and below it; None for one that is not known."""
    place, below = folder, f"{folder.rstrip('/')}/"
    while place not in kinds and place != "/":
        place = os.path.dirname(place)
    return {kinds.get(place), *(kind for point, kind in kinds.items() if point.startswith(below))}
