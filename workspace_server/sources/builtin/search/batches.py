"""Divides the files of a search into batches, and lists the next one while one is searched."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from typing import Final

from workspace_server.garbage_pause import garbage_pause
from workspace_server.sources.builtin.search.query import Scope

FIRST: Final = 500
"""Files of the first batch: what is in many files is found without listing the rest."""
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


class Batches:
    """The files of a scope, in walk order. Close it at the end."""

    def __init__(self, scope: Scope) -> None:
        self._stop = threading.Event()
        self._segments = scope.names(self._stop.is_set)
        self._rest: Iterator[str] = iter(())
        self._next_size = FIRST
        self._most_bytes = most_bytes()
        self._next = self._start()

    async def next(self) -> list[str]:
        """The next batch; empty at the end."""
        batch = await asyncio.shield(self._next)
        if batch:
            self._next = self._start()
        return batch

    def close(self) -> None:
        """Stop listing."""
        self._stop.set()
        self._next.add_done_callback(lambda task: task.cancelled() or task.exception())

    def _start(self) -> asyncio.Task[list[str]]:
        size = self._next_size
        self._next_size *= GROWTH
        return asyncio.create_task(asyncio.to_thread(self._take, size), name="search-listing")

    @garbage_pause()
    def _take(self, size: int) -> list[str]:
        batch: list[str] = []
        room = self._most_bytes
        while True:
            for name in self._rest:
                batch.append(name)
                room -= len(name) * (1 if name.isascii() else 4) + 9  # with its end and the pointer to it
                if len(batch) == size or room < 0:
                    return batch
            segment = next(self._segments, None)
            if segment is None:
                return batch
            self._rest = iter(segment)
