"""Divides the files of a search into batches, and lists the next one while one is searched."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from typing import Final

from workspace_server.garbage_pause import garbage_pause
from workspace_server.sources.builtin.search.query import FilesOfDirectory, Scope

FIRST: Final = 500
"""Least files of the first batch: what is in many files is found without listing the rest."""
GROWTH: Final = 8


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
        self._begins: dict[str, tuple[int, Sequence[str]]] = {}  # made if there is a match
        self._places: dict[str, dict[str, int]] = {}  # of the directories with matches

    def __len__(self) -> int:
        return self._count

    def add(self, part: FilesOfDirectory) -> None:
        """Add files of a directory that has none here yet."""
        self._parts.append(part)
        self._count += len(part.names)

    def files(self) -> list[str]:
        """The paths of all files relative to the folder."""
        return [part.base + name for part in self._parts for name in part.names]

    def arguments(self) -> list[str]:
        """What a program is told to search: a directory in place of all its files."""
        found: list[str] = []
        for base, names, is_whole in self._parts:
            found += [base or "./"] if is_whole else [base + name for name in names]
        return ["./-" if one == "-" else one for one in found]  # `-` would be standard input

    def place_of(self, path: str) -> int | None:
        """The index of a path in `files`, None if it is not there."""
        base, slash, name = path.rpartition("/")
        base += slash
        places = self._places.get(base)
        if places is None:
            begin, names = self._begin_of(base)
            places = self._places[base] = dict(zip(names, range(begin, begin + len(names)), strict=True))
        return places.get(name)

    def _begin_of(self, base: str) -> tuple[int, Sequence[str]]:
        """The index of the first file of a directory, and its names."""
        if not self._begins:
            begin = 0
            for part in self._parts:
                self._begins[part.base] = begin, part.names
                begin += len(part.names)
        return self._begins.get(base, (0, ()))


class Batches:
    """The files of a scope, in walk order. Close it at the end."""

    def __init__(self, scope: Scope) -> None:
        self._stop = threading.Event()
        self._parts = scope.files(self._stop.is_set)
        self._rest: FilesOfDirectory | None = None
        self._next_size = FIRST
        self._most_bytes = most_bytes()
        self._next = self._start()

    async def next(self) -> Batch:
        """The next batch; empty at the end."""
        batch = await asyncio.shield(self._next)
        if batch:
            self._next = self._start()
        return batch

    def close(self) -> None:
        """Stop listing."""
        self._stop.set()
        self._next.add_done_callback(lambda task: task.cancelled() or task.exception())

    def _start(self) -> asyncio.Task[Batch]:
        size = self._next_size
        self._next_size *= GROWTH
        return asyncio.create_task(asyncio.to_thread(self._take, size), name="search-listing")

    @garbage_pause()
    def _take(self, size: int) -> Batch:
        """The next files: at least `size`, or as many as the arguments of a program have room for."""
        batch, room = Batch(), self._most_bytes
        while len(batch) < size and room > 0:
            part, self._rest = self._rest or next(self._parts, None), None
            if part is None:
                break
            if part.is_whole:
                room -= _argument_bytes(part.base)
            else:
                part, room = self._fitting(part, room)
            batch.add(part)
        return batch

    def _fitting(self, part: FilesOfDirectory, room: int) -> tuple[FilesOfDirectory, int]:
        """As many of the files as there is room for, at least one, and the room that is left."""
        base, names, _ = part
        for number, name in enumerate(names, 1):
            room -= _argument_bytes(base + name)
            if room <= 0 and number < len(names):
                self._rest = part._replace(names=names[number:])
                return part._replace(names=names[:number]), room
        return part, room


def _argument_bytes(argument: str) -> int:
    """How much room an argument takes at most, with its end and the pointer to it."""
    return len(argument) * (1 if argument.isascii() else 4) + 9
