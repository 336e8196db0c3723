"""Counts processes with all that they started, and the memory that only they hold.

Quick enough for a verb that prints it: two small files of /proc for each process and thread. Elsewhere psutil
tells it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

MOST_PROCESSES: Final = 2000
"""Most processes of one family. Of a server that starts thousands, nobody wants to know what copies cost."""


class Footprint(NamedTuple):
    """A number of processes, and the bytes of memory that no other process could share with them.

    A further copy of the programs would need as much again.
    """

    processes: int = 0
    own: int = 0


def footprint(pids: Iterable[int]) -> Footprint:
    """The footprint of these processes; those that have ended count nothing."""
    read = _memory_of if sys.platform == "linux" else _memory_by_psutil
    memory = [pair for pid in set(pids) if (pair := read(pid)) is not None]
    return Footprint(len(memory), sum(own for _, own in memory))


def proportional_memory(pids: Iterable[int]) -> int:
    """The memory of processes in bytes, in which what several share counts once.

    Where the system does not tell it, it counts for each of them.
    """
    return sum(map(_proportional, set(pids)))


def _proportional(pid: int) -> int:
    if sys.platform == "linux":
        with suppress(OSError, ValueError, IndexError):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_bytes()
            return int(rollup.partition(b"\nPss:")[2].split(maxsplit=1)[0]) * 1024
        memory = _memory_of(pid)
    else:
        memory = _memory_by_psutil(pid)
    return 0 if memory is None else memory[0]


def family(pid: int) -> set[int]:
    """A process with all that it started, and what those started."""
    seen_pids: set[int] = set()
    rest = [pid]
    while rest and len(seen_pids) < MOST_PROCESSES:
        member = rest.pop()
        if member not in seen_pids:
            seen_pids.add(member)
            rest += children(member)
    return seen_pids


def children(pid: int) -> list[int]:
    """The processes that a process started, without those that have ended; none if nobody tells."""
    if sys.platform != "linux":
        import psutil

        try:
            return [child.pid for child in psutil.Process(pid).children()]
        except psutil.Error:
            return []
    started: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208  `lmtb status` starts without pathlib's walks
    except OSError:
        return []
    for thread in threads:  # each thread lists the processes that it started
        try:
            started += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())
        except (OSError, ValueError):
            continue  # it has ended, or this kernel has no such file
    return started


def _memory_of(pid: int) -> tuple[int, int] | None:
    """The resident memory of a process, and what of it nobody could share; None if it has ended.

    As proc_pid_statm(5) tells it: the fields resident and shared, which is what files and others back.
    """
    try:
        _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_bytes().split())
    except (OSError, ValueError):
        return None
    if not resident:
        return None  # it has ended, and its parent has not asked how
    page = os.sysconf("SC_PAGE_SIZE")
    return resident * page, max(0, resident - shared) * page


def _memory_by_psutil(pid: int) -> tuple[int, int] | None:
    import psutil

    try:
        memory = psutil.Process(pid).memory_full_info()
    except psutil.Error:
        return None
    return memory.rss, memory.uss
