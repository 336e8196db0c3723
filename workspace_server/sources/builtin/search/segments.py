"""Filters the files of a walk, directory by directory, by the globs of a query. Pure.

A glob is a part for the directory and one for the name. The first is tested once for all files of a
directory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from workspace_server.sources.builtin.search.patterns import PathFilter, glob_regex

_PLAIN: Final = re.compile(r"[^*?\[\]{}!\\]+")
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
        self._matchers: dict[tuple[str, ...], Callable[[str], object] | tuple[str, ...] | None] = {}
        self._endings = {glob_regex(f"*{ending}"): ending for ending in map(_ending, wanted.globs) if ending}

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
            self._matchers[wanted] = self._matcher(wanted)
        matcher = self._matchers[wanted]
        if matcher is None:
            return names
        if isinstance(matcher, tuple):  # much faster than an expression
            return [name for name in names if name.endswith(matcher)]
        return [name for name in names if matcher(name)]

    def _matcher(self, wanted: tuple[str, ...]) -> Callable[[str], object] | tuple[str, ...] | None:
        """What tells whether a name passes: nothing where all do, the endings, or an expression."""
        if "" in wanted:
            return None
        endings = [self._endings.get(one.removeprefix("(?:").removesuffix(")")) for one in wanted]
        if None not in endings:
            return tuple(one for one in endings if one is not None)
        return re.compile("|".join(wanted)).fullmatch


def _ending(glob: str) -> str | None:
    """What a name must end with, if the glob asks for nothing else of it."""
    last = glob.rpartition("/")[2]
    return last[1:] if last.startswith("*") and _PLAIN.fullmatch(last[1:]) else None


def _halves(glob: str) -> tuple[str, str]:
    """Regular expressions for the directory, with `/` at its end, and the name; "" is any name."""
    *above, last = [part for part in glob.split("/") if part not in {"", "."}] or ["**"]
    directory = glob_regex("/".join([*above, "x"])).removesuffix("x")
    if last == "**":
        return f"(?s:{directory}.*)", ""
    return directory, f"(?:{glob_regex(last)})"
