"""Filters the files of a walk, directory by directory, by the globs of a query. Pure.

A glob is a part for the directory and one for the name. The first is tested once for all files of a
directory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from workspace_server.sources.builtin.search.patterns import PathFilter, glob_regex

_ANYWHERE: Final = "(?:[^/]+/)*"


class Segment(NamedTuple):
    """Files of one directory that follow each other in walk order.

    Attributes:
        base: the directory relative to the folder, with `/` at its end; "" for the folder.
        names: the names of the files.
    """

    base: str
    names: tuple[str, ...]


class SegmentFilter:
    """A `PathFilter` for segments: the same paths pass."""

    def __init__(self, wanted: PathFilter) -> None:
        self._everything = wanted.everything
        groups: dict[str, list[str]] = {}
        for glob in wanted.globs:
            directory, name = _halves(glob)
            groups.setdefault(directory, []).append(name)
        anywhere = groups.pop(_ANYWHERE, [])
        self._below = [(re.compile(directory).fullmatch, names) for directory, names in groups.items()]
        self._anywhere = tuple(anywhere)
        self._matchers: dict[tuple[str, ...], Callable[[str], object] | None] = {}

    def __call__(self, segment: Segment) -> Sequence[str]:
        """The names in the segment whose paths pass."""
        base, names = segment
        if self._everything:
            return names
        wanted = self._anywhere
        for matches, more in self._below:
            if matches(base):
                wanted = (*wanted, *more)
        if not wanted:
            return ()
        if wanted not in self._matchers:
            self._matchers[wanted] = None if "" in wanted else re.compile("|".join(wanted)).fullmatch
        matches_name = self._matchers[wanted]
        return names if matches_name is None else [name for name in names if matches_name(name)]


def _halves(glob: str) -> tuple[str, str]:
    """Regular expressions for the directory, with `/` at its end, and the name; "" is any name."""
    *above, last = [part for part in glob.split("/") if part not in {"", "."}] or ["**"]
    directory = glob_regex("/".join([*above, "x"])).removesuffix("x")
    if last == "**":
        return f"(?s:{directory}.*)", ""
    return directory, f"(?:{glob_regex(last)})"
