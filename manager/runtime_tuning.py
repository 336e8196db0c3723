"""Tunes the Python runtime: uvloop wherever it runs, and one heap of glibc for all threads.

By default each thread that allocates gets a heap of its own, and what one thread has freed is of no use to
the others: a manager under churn held 9 MiB in that way.

By default glibc also returns the memory of each piece of a large response to the system and takes it again,
page by page; that costs more than reading and writing the piece. But it keeps for good what lies between
smaller pieces that are in use: 70 MiB after a hundred large responses at a time.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

from manager.configuration.budgets import MAX_FREED_BYTES


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the event loop of a runner; None for the loop of the standard library."""
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop


LARGEST: Final = 4 * 1024 * 1024
"""Largest piece, in bytes, that is taken from that memory."""
# Memory that nobody uses goes back within seconds; a look reads one file of /proc.
LOOK_S: Final = 5.0
QUIET_S: Final = 0.1
"""A process that uses less processor time between two looks is quiet: nobody waits for the trim."""
_QUIET_GROWTH: Final = 1024 * 1024
"""Bytes of growth that are worth a trim in a quiet process."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # mallopt(3)


def use_one_heap() -> bool:
    """Make all threads that start from now on share one heap. False where there is no glibc.

    The interpreter's own lock keeps them from waiting for each other there.
    """
    mallopt = _function("mallopt")
    return mallopt is not None and bool(mallopt(_ARENA_MAX, 1))


@cache
def keep_freed_memory() -> bool:
    """Keep freed memory from now on; done once. False where there is no glibc."""
    mallopt = _function("mallopt")
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, MAX_FREED_BYTES) and mallopt(_MMAP_THRESHOLD, LARGEST))


def return_freed_memory() -> bool:
    """Return all freed memory to the system, which takes some milliseconds. False where there is no glibc."""
    trim = _function("malloc_trim")
    return trim is not None and bool(trim(0))


def resident_bytes() -> int:
    """The resident memory of this process (RSS); 0 where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class FreedMemory:
    """Returns freed memory when the process has grown and holds no large body any more.

    It has grown enough by `MAX_FREED_BYTES` while it works, by `_QUIET_GROWTH` while it does next to nothing.

    Args:
        in_use: the bytes of large bodies that are held.
        worked_s: the processor time that the process has used, in seconds.
    """

    def __init__(
        self,
        in_use: Callable[[], int],
        resident: Callable[[], int] = resident_bytes,
        trim: Callable[[], object] = return_freed_memory,
        worked_s: Callable[[], float] = time.process_time,
    ) -> None:
        self._in_use = in_use
        self._resident = resident
        self._trim = trim
        self._worked_s = worked_s
        self._worked_before = 0.0
        self._least: int | None = None
        """The memory that is surely used: the least since the last time that some was returned."""

    def look(self) -> None:
        """Return freed memory if it is worth while."""
        resident, worked = self._resident(), self._worked_s()
        enough = _QUIET_GROWTH if worked - self._worked_before < QUIET_S else MAX_FREED_BYTES
        self._worked_before = worked
        if self._least is None or resident < self._least:
            self._least = resident
        elif resident - self._least >= enough and not self._in_use():
            self._trim()
            self._least = self._resident()

    async def run(self) -> None:
        """Look every `LOOK_S` seconds, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_S)


def _function(name: str) -> Any:
    """A function of the C library; None if it has none of that name."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes  # noqa: PLC0415  takes milliseconds, and only large responses need it

    return getattr(ctypes.CDLL(None), name, None)
