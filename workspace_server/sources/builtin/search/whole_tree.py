"""A whole folder as ripgrep searches it: by one parallel walk of its own that leaves out what is hidden.

ripgrep decides nothing: it is told the hidden entries one by one. Where a name cannot be told it searches too
much, and what it finds in files that are not listed does not count. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from workspace_server.sources.builtin.files.segments import Segment, SegmentFilter
from workspace_server.sources.builtin.files.tree import NEVER_SEARCHED
from workspace_server.sources.builtin.search.places import Place, Places

MAX_HIDDEN: Final = 10_000
"""Hidden entries that ripgrep is told at most."""
MANY: Final = 5_000
"""The names of a directory with more files are parted here, not for its first match."""
_SPECIAL: Final = re.compile(r"[\\*?\[\]{}]")
_UNSPEAKABLE: Final = re.compile(r"[\n\ud800-\udfff]|\s\Z")
"""In an ignore file, a line is UTF-8 and loses white space at its end."""


class WholeTree:
    """All files of a folder.

    Args:
        segments: the list.
        wanted: tells which files of the list are searched.
        done: how many of the files were searched before.
        is_done: whether a file is one of those, so that it does not count.

    Attributes:
        is_worth_a_walk: whether files are left, most are wanted, and ripgrep can be told what is hidden.
    """

    def __init__(
        self, segments: Iterable[Segment], wanted: SegmentFilter, *, done: int, is_done: Callable[[str], bool]
    ) -> None:
        self._is_done = is_done
        self._places = Places()
        self._links: list[str] = []
        self._hidden: list[str] = []
        searched = every = 0
        for segment in segments:
            names = partial(wanted, segment)
            self._places.add(segment.base, names() if segment.count > MANY else names)
            searched += wanted.count(segment)
            every += segment.count
            if not segment.is_whole:
                self._links += [segment.base + name for name in segment.links]
                self._hidden += [segment.base + name for name in segment.hidden]
        self.is_worth_a_walk = searched > done and 2 * searched >= every and len(self._hidden) <= MAX_HIDDEN

    def arguments(self) -> list[str]:
        """What a program is told to search: the folder, and the visible links, which it would not follow."""
        return ["./", *(f"./{path}" for path in self._links)]

    def ignore_file(self) -> bytes:
        """The hidden entries, as an ignore file of the folder."""
        lines = [
            "/" + _SPECIAL.sub(r"\\\g<0>", path) for path in self._hidden if not _UNSPEAKABLE.search(path)
        ]
        return "\n".join([NEVER_SEARCHED, *lines, ""]).encode()

    def place_of(self, path: str) -> Place | None:
        """Where a file is in the order of results; None if it does not count."""
        return None if self._is_done(path) else self._places.of(path)
