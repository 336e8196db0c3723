"""Identifies a version of a file by its `stat` values, to tell whether it changed since it was read."""

from __future__ import annotations

import os
from typing import Final

FileIdentity = tuple[int, int, int, int, int, int]
"""Device, inode, mode, size, and times of content and status in nanoseconds."""

SETTLES_NS: Final = 100_000_000
"""Resolution of file times, with a margin: a file may change again this soon without a new timestamp."""


def file_identity(status: os.stat_result) -> FileIdentity:
    """The identity of a file or folder with this status."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def is_settled(identity: FileIdentity, now_ns: int) -> bool:
    """Whether an equal identity means equal content; `now_ns` is the wall clock before the read began."""
    return now_ns - identity[5] > SETTLES_NS
