"""Reads which project marks a folder has."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from lm_tools_bridge.machine.project_marks import Mark, mark_of, may_be_mark


def marks_of(folder: Path) -> frozenset[Mark]:
    """The marks in a folder's listing; none if it cannot be listed. Blocks as long as the disk does."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(mark for entry in entries if (mark := _mark(entry)) is not None)
    except OSError:
        return frozenset()


def _mark(entry: os.DirEntry[str]) -> Mark | None:
    if not may_be_mark(entry.name):
        return None
    with suppress(OSError):  # a dangling link is no mark
        return mark_of(entry.name, is_folder=entry.is_dir(), is_file=entry.is_file())
    return None
