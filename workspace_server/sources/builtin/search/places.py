"""Finds the place of a path in the order of results. Pure."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Sequence

Place = tuple[int, int]
"""The number of a directory, and the number of a file in it."""


class Places:
    """The files of a search, directory by directory."""

    def __init__(self) -> None:
        self._directories: dict[str, tuple[int, Sequence[str] | Callable[[], Sequence[str]]]] = {}

    def add(self, base: str, names: Sequence[str] | Callable[[], Sequence[str]]) -> None:
        """Add files of a directory that has none here yet, in the order of their bytes."""
        self._directories[base] = len(self._directories), names

    def of(self, path: str) -> Place | None:
        """The place of a path; None if it is not here. Takes microseconds, however many files there are."""
        base, slash, name = path.rpartition("/")
        directory = self._directories.get(base + slash)
        if directory is None:
            return None
        number, names = directory
        if callable(names):
            names = names()
            self._directories[base + slash] = number, names
        at = bisect_left(names, os.fsencode(name), key=os.fsencode)
        return (number, at) if at < len(names) and names[at] == name else None
