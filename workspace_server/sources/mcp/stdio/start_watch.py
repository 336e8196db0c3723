"""Extends the time limit of a start while the process shows signs of life.

The first start of `npx` and `uvx` downloads for minutes; a process that hangs shows nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from typing import Final

from lm_tools_bridge.machine.process_ending import pids, read_proc
from workspace_server.processes.child_process import ChildProcess

LOOK_S: Final = 3.0
"""Seconds between two looks at the processes; each reads a small file of every process of the machine."""


class StartWatch:
    """The start of one process.

    Args:
        child: the process.
        output: how much came on its standard output so far.
        silent_s: how long it may go on without a sign of life.
        longest_s: how long it may take in all.
        look_s: seconds between two looks.
    """

    def __init__(
        self,
        child: ChildProcess,
        output: Callable[[], int],
        *,
        silent_s: float,
        longest_s: float,
        look_s: float = LOOK_S,
    ) -> None:
        self._child = child
        self._output = output
        self._silent_s = silent_s
        self._longest_s = longest_s
        self._look_s = min(look_s, silent_s / 3)
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._alive_at = self._began

    @property
    def seconds(self) -> float:
        """How long the start takes so far."""
        return self._loop.time() - self._began

    @property
    def silent_for_s(self) -> float:
        """Seconds since the last sign of life."""
        return self._loop.time() - self._alive_at

    async def extend(self, limit: asyncio.Timeout) -> None:
        """Move the limit whenever there is a sign of life, until cancelled."""
        before = await self._signs()
        while True:
            await asyncio.sleep(self._look_s)
            signs = await self._signs()
            if signs != before:
                before, self._alive_at = signs, self._loop.time()
                limit.reschedule(min(self._alive_at + self._silent_s, self._began + self._longest_s))

    async def _signs(self) -> object:
        family = await asyncio.to_thread(of_session, self._child.pid)
        return family, self._child.stderr.received, self._output()


# Blocks; call it in a thread.

Signs = tuple[tuple[int, int, int], ...]
"""Of each process its pid, its processor time, and the bytes that it read and wrote."""


def of_session(leader: int) -> Signs:
    """The signs of all processes in the session of `leader`. Equal ones a while later show no life."""
    return tuple(sorted(_in_proc(leader) if sys.platform == "linux" else _by_psutil(leader)))


def _in_proc(leader: int) -> Iterator[tuple[int, int, int]]:
    for pid in pids():
        try:
            fields = read_proc(pid, "stat").rpartition(b")")[2].split()
            if int(fields[3]) == leader:
                yield pid, int(fields[11]) + int(fields[12]), _bytes_moved(pid)
        except (OSError, ValueError, IndexError):
            continue  # it has just ended


def _bytes_moved(pid: int) -> int:
    """Bytes read and written, those of pipes and sockets too; 0 where the system does not tell."""
    try:
        lines = read_proc(pid, "io").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith((b"rchar", b"wchar")))


def _by_psutil(leader: int) -> Iterator[tuple[int, int, int]]:
    import psutil

    try:
        root = psutil.Process(leader)
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return
    for process in family:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        yield process.pid, int((times.user + times.system) * 100), 0
