"""Kills all processes of a kind, and searches again until none is left. Reads their environments.

A process may start another one during a search, so one pass is not enough. All functions block; call them in
a thread.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from lm_tools_bridge.machine.processes.pidfd import kill_if

_PAUSE_S: Final = 0.005
_MAX_DOUBTS: Final = 2  # a process may have no environment for its whole life

Verdict = Literal["ours", "not ours", "unclear"]
"""Whether a process is to be killed; `unclear`: look again, because it may just be executing a program."""
Judge = Callable[[int], Verdict]
"""Decides about the process with this pid."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep did.

    Attributes:
        killed: the pids that got SIGKILL.
        left: the pids that were still found at the end; normally none.
    """

    killed: frozenset[int]
    left: tuple[int, ...]


def kill_all(judge: Judge, timeout_s: float = 2.0) -> Sweep:
    """Kill all processes that are ours, until none is found or the time is over."""
    deadline = time.monotonic() + timeout_s
    killed: set[int] = set()
    doubts = 0
    while True:
        pids, unsure = _kill_round(judge, killed)
        doubts += unsure
        if not pids and (not unsure or doubts > _MAX_DOUBTS):
            return Sweep(frozenset(killed), ())
        if time.monotonic() > deadline:
            return Sweep(frozenset(killed), tuple(pids))
        time.sleep(_PAUSE_S)


def _kill_round(judge: Judge, killed: set[int]) -> tuple[list[int], bool]:
    """Kill each match as soon as it is found, before it can fork. Also returns whether one was unclear."""
    matching, unsure = [], False
    for pid in pids():
        verdict = judge(pid)
        if verdict == "ours":
            matching.append(pid)
            if kill_if(pid, lambda pid: judge(pid) == "ours"):
                killed.add(pid)
        elif verdict == "unclear":
            unsure = True
    return matching, unsure


def find_all(judge: Judge) -> list[int]:
    """The pids of the living processes that are ours, except this process."""
    return [pid for pid in pids() if judge(pid) == "ours"]


def pids() -> list[int]:
    """The pids of all processes except this one."""
    own = os.getpid()
    if sys.platform == "linux":
        names = os.listdir("/proc")  # noqa: PTH208  twice as fast, and there may be thousands
        return [int(name) for name in names if name.isdigit() and int(name) != own]
    import psutil

    return [pid for pid in psutil.pids() if pid != own]


def environment(pid: int) -> bytes | None:
    """The environment a process was started with; None if it is another user's or has ended."""
    if sys.platform == "linux":
        try:
            return read_proc(pid, "environ")
        except OSError:
            return None
    import psutil

    try:
        return b"\0".join(f"{key}={value}".encode() for key, value in psutil.Process(pid).environ().items())
    except (psutil.Error, OSError):
        return None


def read_variables(pid: int) -> dict[str, str]:
    """The variables a process was started with; none if it is another user's or has ended.

    psutil stops at the first empty entry, and an erased value leaves such entries.
    """
    entries = (entry.partition(b"=") for entry in (environment(pid) or b"").split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, equals, value in entries if equals}


def read_proc(pid: int, name: str) -> bytes:
    """The bytes of `/proc/PID/NAME`.

    Raises:
        OSError: the process has ended, or belongs to another user.
    """
    descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, 1 << 17):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
