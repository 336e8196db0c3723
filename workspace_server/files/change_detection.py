"""Detects with a few `stat` calls whether reading files again could give a different result.

A read records the paths it depends on. Before the next read their state is compared; if it is the same, the
previous result is still valid. For a missing file, the folder in which it would appear is compared.

The compared state was taken before the read, and no state is used that changed so recently that a further
change might not alter its timestamp. So no change is missed. Blocks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
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


SNAPSHOT_INTERVAL_S: Final = 0.5
"""Minimum interval between two snapshots, because a snapshot costs as much as a read."""

State = tuple[int, int, int]
"""Device, inode and ctime, which programs cannot set."""


class ChangeDetector:
    """Records what reads depend on. One read at a time; only `invalidate` may be called during one.

    Args:
        wall_ns: the wall clock in nanoseconds since 1970.
        clock: monotonic seconds.
    """

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall_ns = wall_ns
        self._clock = clock
        self._snapshot_at = -SNAPSHOT_INTERVAL_S
        self._seen: set[str] = set()  # by the current read, or the last one
        self._snapshot_paths: set[str] = set()  # paths in the snapshot that was taken before the current read
        self._snapshot: Mapping[str, State] | None = None
        self._valid: Mapping[str, State] | None = None
        self._is_incomplete = True
        self._generation = 0

    def add_path(self, path: str) -> None:
        """Record that the current read depends on this path, whether it exists or not."""
        self._seen.add(path)

    def mark_incomplete(self) -> None:
        """Record that the current read also depends on something that no path shows."""
        self._is_incomplete = True

    def invalidate(self) -> None:
        """Discard the recorded state, also that of the current read."""
        self._generation += 1
        self._valid = None

    def is_unchanged(self) -> bool:
        """Whether a read would give the result of the last one."""
        if self._valid is None:
            return False
        try:
            for path, state in self._valid.items():
                if _file_state(path) != state:
                    self._valid = None
                    return False
        except OSError:
            self._valid = None
            return False
        return True

    def begin(self) -> int:
        """Begin a read. Returns the token for `end`."""
        self._snapshot = None
        now = self._clock()
        if not self._is_incomplete and now - self._snapshot_at >= SNAPSHOT_INTERVAL_S:
            self._snapshot_at = now
            self._snapshot_paths = self._seen
            self._snapshot = self._take_snapshot(self._seen)
        self._seen, self._is_incomplete = set(), False
        return self._generation

    def end(self, begun: int) -> None:
        """End the read that `begin` began."""
        is_whole = not self._is_incomplete and self._seen <= self._snapshot_paths
        if is_whole and self._snapshot is not None and begun == self._generation:
            self._valid = self._snapshot

    def _take_snapshot(self, paths: set[str]) -> Mapping[str, State] | None:
        states: dict[str, State] = {}
        latest = self._wall_ns() - SETTLES_NS
        for path in paths:
            witness = _nearest_existing(path)
            if witness is None or witness[1][2] >= latest:
                return None
            states[witness[0]] = witness[1]
        return states


def _file_state(path: str) -> State:
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _nearest_existing(path: str) -> tuple[str, State] | None:
    """The path and its state, or if it does not exist, those of the nearest existing folder above it.

    None if neither shows when something appears at the path.
    """
    while True:
        try:
            return path, _file_state(path)
        except (FileNotFoundError, NotADirectoryError):
            above = os.path.dirname(path)
            if above == path or os.path.islink(path):
                return None  # no folder above shows when the target of a link appears
            path = above
        except (OSError, ValueError):
            return None
