"""Determines whether folders are on local disks, where file operations take microseconds.

Network and FUSE file systems may hang for minutes and are read in threads, although handing work to a thread
costs several times as much as a local read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
_LOCAL: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)
_ESCAPED: Final = {r"\040": " ", r"\011": "\t", r"\012": "\n", r"\134": "\\"}


def are_local(folders: Iterable[Path], mounts: Path = _MOUNTS) -> bool:
    """Whether all these folders are on local disks; False if unknown. Blocks."""
    try:
        kinds = dict(_mounts(mounts.read_text("utf-8", "surrogateescape")))
        return all(_kind(os.path.realpath(folder), kinds) in _LOCAL for folder in folders)
    except (OSError, ValueError, IndexError):
        return False


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
