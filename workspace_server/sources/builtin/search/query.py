"""Defines the queries, the results and the order of results that both search engines share."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from workspace_server.sources.builtin.files.ignore import Tree
from workspace_server.sources.builtin.files.listing import Listing, Listings
from workspace_server.sources.builtin.files.segments import Segment, SegmentFilter

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


HEAD_BYTES: Final = 8192
"""Bytes that are kept of a matching line, for its preview."""

MAX_COUNTED_LINES: Final = 10_000
"""Matching lines that are counted beyond those that are shown."""

# A minified file is one line of megabytes: a model gets the match with what is around it.
PREVIEW_CHARACTERS: Final = 500
_LEAD: Final = 100

T = TypeVar("T")


class EngineUnavailable(Exception):
    """The engine cannot run this search; the caller has to use the other one."""


class BadRegex(Exception):
    """The pattern is not a valid regular expression: `position` (0-based, None if unknown) and `reason`."""

    def __init__(self, reason: str, position: int | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How to search.

    Attributes:
        ripgrep: path of the program; None searches for it, "" disables it.
        deadline: seconds after which a search returns what it has found.
        environ: environment variables, for PATH and the user's git configuration; None for our own.
        listings: the lists of files that earlier searches made.
    """

    ripgrep: str | None = None
    deadline: float = 30.0
    environ: Mapping[str, str] | None = None
    listings: Listings = field(default_factory=Listings)


class FilesOfDirectory(NamedTuple):
    """The wanted files of one directory.

    Attributes:
        segment: the directory.
        names: the names of the files, in order.
    """

    segment: Segment
    names: Sequence[str]

    @property
    def is_whole(self) -> bool:
        """Whether these are all its files, so that a program may get the directory in their place."""
        return self.segment.is_whole and len(self.names) == self.segment.count


@dataclass(frozen=True, slots=True)
class Scope:
    """What to search: the tree of a folder, its list of files, and a filter for them."""

    tree: Tree
    listing: Listing
    wanted: SegmentFilter

    def files(self, stop: Callable[[], bool]) -> Iterator[FilesOfDirectory]:
        """The wanted files, directory by directory, in walk order. Blocks."""
        for segment in self.listing.segments(self.tree, stop):
            if names := self.wanted(segment):
                yield FilesOfDirectory(segment, names)


@dataclass(frozen=True, slots=True)
class TextQuery:
    """What to find in lines. `text` is a regular expression if `regex` is set, and contains no line end."""

    text: str
    regex: bool
    case_sensitive: bool = False

    @property
    def ignore_case(self) -> bool:
        """Smart case: without `case_sensitive`, a query without capitals matches any case."""
        letters = re.sub(r"\\(?:[pP](?:\{[^}]*\}|.)|.)", "", self.text) if self.regex else self.text
        return not self.case_sensitive and not any(char.isupper() for char in letters)


@dataclass(frozen=True, slots=True)
class Line:
    """One matching line.

    Attributes:
        relative: path of the file, relative to its folder.
        number: line number, from 1.
        head: the first `HEAD_BYTES` bytes of the line, as UTF-8.
        longer: whether the line is longer than `head`.
        start: offset of the first match, in bytes.
        occurrences: number of matches that are not empty, at least 1.
    """

    relative: str
    number: int
    head: bytes
    longer: bool
    start: int
    occurrences: int

    @property
    def preview(self) -> str:
        """The line; of a long line `PREVIEW_CHARACTERS` around the first match, with `…` at cut ends."""
        text = self.head.decode("utf-8", "replace").rstrip("\r\n")
        if len(text) <= PREVIEW_CHARACTERS and not self.longer:
            return text
        at = len(self.head[: self.start].decode("utf-8", "replace")) if self.start < len(self.head) else 0
        begin = max(0, min(at - _LEAD, len(text) - PREVIEW_CHARACTERS))
        cut = text[begin : begin + PREVIEW_CHARACTERS]
        more = self.longer or begin + len(cut) < len(text)
        return ("…" if begin else "") + cut + ("…" if more else "")


@dataclass(slots=True)
class Findings(Generic[T]):
    """Collects what an engine finds, in order; all stays valid if the engine is cancelled.

    Attributes:
        items: the first ones.
        total: how many were found, with those that are not kept.
        exact: whether there are no more than `total`.
    """

    items: list[T] = field(default_factory=list)
    total: int = 0
    exact: bool = True


@dataclass(frozen=True, slots=True)
class TextMatch:
    """One matching line of the workspace."""

    path: Path
    line: int
    preview: str
    occurrences: int
