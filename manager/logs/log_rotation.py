"""Sets the logs aside that grow too long while programs write them. Nothing else renames or empties a log.

The programs keep their files open, also those that end while their successor writes already. So a long log is
copied and emptied, not renamed. Lines that are written between these two steps are lost. All writers append,
so they go on at the new end.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from manager.configuration.budgets import MAX_LOG_BYTES
from manager.logs.log import logger

_PIECE: Final = 256 * 1024
FLOOD_S: Final = 60.0
"""A log that reaches the limit twice within this time is flooded."""


class LogRotation:
    """The logs in one folder. Blocks: call it from a thread."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._now = now
        self._rotated_at: dict[Path, float] = {}
        self._flooded: set[Path] = set()

    def run(self) -> None:
        """Set aside every log above the limit, as `….old.log`. A log that cannot be is left as it is."""
        for log in self._folder.glob("*.log"):
            with suppress(OSError):
                status = log.lstat()
                is_log = stat.S_ISREG(status.st_mode) and not log.name.endswith(".old.log")
                if is_log and status.st_size > MAX_LOG_BYTES:
                    self._rotate(log)

    def _rotate(self, log: Path) -> None:
        old = log.with_suffix(".old.log")
        old.unlink(missing_ok=True)  # never write through a link that somebody put there
        descriptor = os.open(old, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with log.open("rb") as source, os.fdopen(descriptor, "wb") as copy:
            while piece := source.read(_PIECE):
                copy.write(piece)
        os.truncate(log, 0)
        last, self._rotated_at[log] = self._rotated_at.get(log), self._now()
        if last is not None and self._now() - last < FLOOD_S and log not in self._flooded:
            self._flooded.add(log)
            why = f"more than {MAX_LOG_BYTES // 2**20} MiB a minute; only the newest lines are kept"
            logger().warning("log.flooded", file=str(log), why=why)
