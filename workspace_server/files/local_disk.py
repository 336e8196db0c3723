"""Determines whether folders are on local disks, where file operations take microseconds.

Network and FUSE file systems may hang for minutes and are read in threads, although handing work to a thread
costs several times as much as a local read.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

_MOUNTS: Final = Path("/proc/self/mountinfo")
_LOCAL: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)
LOOK_AGAIN_S: Final = 10.0
_P = ParamSpec("_P")
_T = TypeVar("_T")
_ESCAPED: Final = {r"\040": " ", r"\011": "\t", r"\012": "\n", r"\134": "\\"}


def are_local(folders: Iterable[Path], mounts: Path = _MOUNTS) -> bool:
    """Whether all these folders are on local disks; False if unknown. Blocks."""
    try:
        kinds = dict(_mounts(mounts.read_text("utf-8", "surrogateescape")))
        return all(_kind(os.path.realpath(folder), kinds) in _LOCAL for folder in folders)
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


def _mounts(text: str) -> Iterable[tuple[str, str]]:
    """Mount points and their file system types; a later mount hides an earlier one on the same point."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4]
        for escaped, character in _ESCAPED.items():
            point = point.replace(escaped, character)
        yield point, after.split()[0]


def _kind(path: str, kinds: dict[str, str]) -> str | None:
    place = path
    while place not in kinds and place != "/":
        place = os.path.dirname(place)  # noqa: PTH120  a string walk, without objects
    return kinds.get(place)
