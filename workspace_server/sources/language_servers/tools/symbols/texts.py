"""Reads the lines of files for positions and previews, each file once per call. Blocks."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from workspace_server.sources.language_servers.wire.positions import split_lines

MAX_FILE: Final = 8 * 1024 * 1024
MAX_FILES: Final = 2000
MAX_WIDTH: Final = 300
"""Characters of a line in a preview."""


class Texts:
    """The lines of files as they are on disk, for one call."""

    def __init__(self) -> None:
        self._known: dict[str, Sequence[str] | None] = {}

    def lines(self, path: Path) -> Sequence[str] | None:
        """The lines without their ends; None if the file cannot be read, is too large, or no regular file."""
        name = str(path)
        if name not in self._known:
            self._known[name] = _read(name) if len(self._known) < MAX_FILES else None
        return self._known[name]


def _read(path: str) -> Sequence[str] | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE:
            return None
        # a regular file gives all of it at once; a buffer of the largest size would take longer than the read
        return split_lines(os.read(descriptor, status.st_size + 1).decode("utf-8-sig", "replace"))
    except OSError:
        return None
    finally:
        os.close(descriptor)


def cut(line: str) -> str:
    """A line as previews show it."""
    return line if len(line) <= MAX_WIDTH else line[:MAX_WIDTH] + "…"
