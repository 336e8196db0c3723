"""Divides the files of a search: a first batch, which is found soon, then the whole tree, or more batches.

A whole tree is searched by one parallel walk of ripgrep, which is told the hidden entries one by one. Where a
name cannot be told it searches too much, and what it finds in files that are not listed does not count.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Final, TypeVar

from workspace_server.garbage_pause import garbage_pause
from workspace_server.sources.builtin.files.ignore import NEVER_SEARCHED
from workspace_server.sources.builtin.files.listing import MAX_KEPT_FILES
from workspace_server.sources.builtin.files.segments import Segment, SegmentFilter
from workspace_server.sources.builtin.search.query import FilesOfDirectory, Place, Places, Scope

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


FIRST: Final = 500
"""Least files of the first batch: what is in many files is found without listing the rest."""
# Each batch costs the start of a program: with this growth few are needed, and an early match is still early.
GROWTH: Final = 8
T = TypeVar("T")


def most_bytes() -> int:
    """Bytes of names that fit into the arguments of a program, with room for its environment."""
    if sys.platform == "win32":
        return 16 * 1024
    try:
        limit = os.sysconf("SC_ARG_MAX")
    except (OSError, ValueError):
        limit = 0
    return min(1024 * 1024, max(limit, 128 * 1024) // 2)


class Batch:
    """Files of a search, directory by directory."""

    def __init__(self) -> None:
        self._parts: list[FilesOfDirectory] = []
        self._count = 0
        self._places = Places()

    def __len__(self) -> int:
        return self._count

    def add(self, part: FilesOfDirectory) -> None:
        """Add files of a directory that has none here yet."""
        self._parts.append(part)
        self._count += len(part.names)
        self._places.add(part.segment.base, part.names)

    def files(self) -> list[str]:
        """The paths of all files relative to the folder."""
        return [part.segment.base + name for part in self._parts for name in part.names]

    def arguments(self) -> list[str]:
        """What a program is told to search: a directory in place of all its files."""
        arguments: list[str] = []
        for part in self._parts:
            base = part.segment.base
            arguments += [base or "./"] if part.is_whole else [base + name for name in part.names]
        return [
            "./-" if argument == "-" else argument for argument in arguments
        ]  # `-` would be standard input

    def place_of(self, path: str) -> Place | None:
        """Where a file is in the order of results; None if it is not here."""
        return self._places.of(path)


class Batches:
    """The files of a scope, in walk order. Close it at the end."""

    def __init__(self, scope: Scope) -> None:
        self._stop = threading.Event()
        self._wanted = scope.wanted
        self._segments = scope.listing.segments(scope.tree, self._stop.is_set)
        self._taken: list[Segment] = []
        self._rest: FilesOfDirectory | None = None
        self._next_size = FIRST
        self._most_bytes = most_bytes()
        self._tree: asyncio.Task[WholeTree | None] | None = None

    async def next(self) -> Batch:
        """The next batch; empty at the end."""
        size = self._next_size
        self._next_size *= GROWTH
        if self._tree is not None:
            await asyncio.shield(self._tree)
            return await asyncio.shield(self._in_thread(lambda: self._take(size)))
        first = await asyncio.shield(self._in_thread(lambda: self._take(size)))
        self._tree = self._in_thread(lambda: self._gather(first))  # while the first batch is searched
        return first

    async def whole_tree(self) -> WholeTree | None:
        """All files, of which those of the first batch are done; None if there are too many to list them all.

        Other batches can still be had.
        """
        return None if self._tree is None else await asyncio.shield(self._tree)

    def close(self) -> None:
        """Stop listing."""
        self._stop.set()

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Task[T]:
        task = asyncio.create_task(asyncio.to_thread(garbage_pause()(work)), name="search-listing")
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return task

    def _take(self, size: int) -> Batch:
        """The next files: at least `size`, or as many as the arguments of a program have room for."""
        batch, room = Batch(), self._most_bytes
        while len(batch) < size and room > 0:
            part, self._rest = self._rest or self._next_part(), None
            if part is None:
                break
            if part.is_whole:
                room -= _argument_bytes(part.segment.base)
            else:
                part, room = self._fitting(part, room)
            batch.add(part)
        return batch

    def _next_part(self) -> FilesOfDirectory | None:
        """The next wanted files."""
        for segment in self._segments:
            if self._tree is None:
                self._taken.append(segment)
            if names := self._wanted(segment):
                return FilesOfDirectory(segment, names)
        return None

    def _gather(self, first: Batch) -> WholeTree | None:
        """List all files."""
        rest: list[Segment] = []
        room = MAX_KEPT_FILES
        for segment in self._segments:
            rest.append(segment)
            room -= segment.count
            if room < 0:
                break
        taken, self._taken = self._taken, []
        self._segments = chain(rest, self._segments)
        if room < 0 or self._stop.is_set():
            return None

        def is_done(path: str) -> bool:
            return first.place_of(path) is not None

        return WholeTree([*taken, *rest], self._wanted, done=len(first), is_done=is_done)

    def _fitting(self, part: FilesOfDirectory, room: int) -> tuple[FilesOfDirectory, int]:
        """As many of the files as there is room for, at least one, and the room that is left."""
        base, names = part.segment.base, part.names
        for number, name in enumerate(names, 1):
            room -= _argument_bytes(base + name)
            if room <= 0 and number < len(names):
                self._rest = part._replace(names=names[number:])
                return part._replace(names=names[:number]), room
        return part, room


def _argument_bytes(argument: str) -> int:
    """How much room an argument takes at most, with its end and the pointer to it."""
    return len(argument) * (1 if argument.isascii() else 4) + 9
