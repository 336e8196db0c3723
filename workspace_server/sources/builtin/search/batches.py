"""Divides the files of a search: a first batch, which is found soon, then the whole tree, or more batches."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from itertools import chain
from typing import Final, TypeVar

from workspace_server.garbage_pause import garbage_pause
from workspace_server.sources.builtin.files.listing import MAX_KEPT_FILES
from workspace_server.sources.builtin.files.segments import Segment
from workspace_server.sources.builtin.search.places import Place, Places
from workspace_server.sources.builtin.search.query import FilesOfDirectory, Scope
from workspace_server.sources.builtin.search.whole_tree import WholeTree

FIRST: Final = 500
"""Least files of the first batch: what is in many files is found without listing the rest."""
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
