"""Detects with a few `stat` calls whether reading files again could give another result.

A read records the paths it depends on. Before the next read their state is taken again; if it is the same,
the previous result is still valid. A missing file depends on the folder in which it would appear.

The compared state was taken before the read, and a change too recent for its timestamp to show is not relied
on, so that no change is missed. Blocks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Final

from workspace_server.files.file_identity import SETTLES_NS

SNAPSHOT_INTERVAL_S: Final = 0.5
"""Taking the state of all paths costs as much as a look; it is not done more often."""

State = tuple[int, int, int]
"""Device, inode, and time of the last change of content or status, which nobody can set."""


class ChangeDetector:
    """What looks depend on. For one look at a time, but for `forget`.

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
        self._seen: set[str] = set()  # by the look under way, or the last one
        self._snapshot_paths: set[str] = set()  # of these the state was taken before the look under way
        self._snapshot: Mapping[str, State] | None = None
        self._valid: Mapping[str, State] | None = None
        self._is_incomplete = True
        self._generation = 0

    def add_path(self, path: str) -> None:
        """The look under way depends on what is at this path, be it nothing."""
        self._seen.add(path)

    def mark_incomplete(self) -> None:
        """The look under way depends on something else, too: another one may find something new."""
        self._is_incomplete = True

    def invalidate(self) -> None:
        """What is to be looked at has changed: the look under way, too, is not relied on."""
        self._generation += 1
        self._valid = None

    def is_unchanged(self) -> bool:
        """Whether a look would find what the last one found."""
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
        """A look begins. Returns what `end` wants."""
        self._snapshot = None
        now = self._clock()
        if not self._is_incomplete and now - self._snapshot_at >= SNAPSHOT_INTERVAL_S:
            self._snapshot_at = now
            self._snapshot_paths = self._seen
            self._snapshot = self._take_snapshot(self._seen)
        self._seen, self._is_incomplete = set(), False
        return self._generation

    def end(self, begun: int) -> None:
        """The look has ended."""
        is_whole = not self._is_incomplete and self._seen <= self._snapshot_paths
        if is_whole and self._snapshot is not None and begun == self._generation:
            self._valid = self._snapshot

    def _take_snapshot(self, paths: set[str]) -> Mapping[str, State] | None:
        taken: dict[str, State] = {}
        latest = self._wall_ns() - SETTLES_NS
        for path in paths:
            witness = _nearest_existing(path)
            if witness is None or witness[1][2] >= latest:
                return None
            taken[witness[0]] = witness[1]
        return taken


def _file_state(path: str) -> State:
    status = os.stat(path)  # noqa: PTH116  half the time of the same with a Path
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _nearest_existing(path: str) -> tuple[str, State] | None:
    """What tells of changes at a path: what is there, or where nothing is, the nearest folder above it."""
    while True:
        try:
            return path, _file_state(path)
        except (FileNotFoundError, NotADirectoryError):
            above = os.path.dirname(path)  # noqa: PTH120  a string walk, without objects
            if above == path or os.path.islink(path):  # noqa: PTH114  the same
                return None  # nothing above tells when the end of a link appears
            path = above
        except (OSError, ValueError):
            return None
