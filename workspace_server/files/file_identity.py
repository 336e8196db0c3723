"""Tells by its identity in the file system whether a file is still the one that was read."""

from __future__ import annotations

import os
from typing import Final

FileIdentity = tuple[int, int, int, int, int, int]
"""Device, inode, mode, size, and times of content and status in nanoseconds."""

SETTLES_NS: Final = 100_000_000
"""File systems tell time in steps of milliseconds: what changed this recently may change again unseen."""


def file_identity(status: os.stat_result) -> FileIdentity:
    """What is compared of a file or folder."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def is_settled(stamp: FileIdentity, now_ns: int) -> bool:
    """Whether an unchanged stamp means unchanged content; `now_ns` is the wall clock before reading began."""
    return now_ns - stamp[5] > SETTLES_NS
