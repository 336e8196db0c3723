"""Opens the log file of a workspace server for its output, and reads its last lines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from manager.disk.disk_lookups import DiskLookups, NoAnswer

TAIL_LINES: Final = 20


def open_log(log: Path) -> int:
    """Open the log file for a server's output and return its descriptor, which the caller closes."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.open(log, flags, 0o600)
    except OSError:  # a full or read-only disk must not prevent the start
        return os.open(os.devnull, os.O_WRONLY)


def tail(log: Path) -> list[str]:
    """The last 20 lines of a log file; empty if it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16 * 1024))
            return file.read().decode("utf-8", "replace").splitlines()[-TAIL_LINES:]
    except OSError:
        return []


class LastOutput:
    """The last lines of a server's output, read in threads. Belongs to one event loop.

    Attributes:
        lines: as of the last `refresh`.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._lookups = DiskLookups()
        self.lines: tuple[str, ...] = ()

    async def refresh(self) -> None:
        """Read the lines, unless the disk does not answer in time."""
        found = await self._lookups.run("tail", lambda: tail(self._log))
        if not isinstance(found, NoAnswer):
            self.lines = tuple(found)
