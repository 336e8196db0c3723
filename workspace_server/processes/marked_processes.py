"""Finds and kills all processes that carry a given variable (the mark) in their environment.

The last step after killing a process group: a daemon that left its group and session still has the
environment it was started with. All functions block; call them in a thread.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from lm_tools_bridge.machine.process_ending import Verdict, environment, find_all, kill_all, pids, read_proc

# `PF_KTHREAD` of the kernel's `linux/sched.h`: such processes have no environment to read.
_KERNEL_THREAD: Final = 0x00200000


def find_marked(name: str, value: str) -> list[int]:
    """The pids of this user's living processes with `name=value` in their environment, except our own."""
    return find_all(_Matcher(f"{name}={value}".encode(), None).at)


def find_group(leader: int) -> list[int]:
    """The pids of living processes in the process group of `leader`, including the leader."""
    if sys.platform != "linux":
        return [pid for pid in pids() if _group_of(pid) == leader]
    return [pid for pid in pids() if (stat := _stat(pid)) and stat.alive and stat.group == leader]


def kill_marked(name: str, value: str, session: int | None = None, timeout_s: float = 2.0) -> list[int]:
    """Kill all processes that carry the mark or belong to `session`, until none is found.

    Args:
        name: variable of the mark.
        value: its value, unique to the processes to be killed.
        session: id of a session that cannot have been reused, or None.
        timeout_s: seconds after which to give up.

    Returns:
        The pids that were still found at the end; normally none.
    """
    return list(kill_all(_Matcher(f"{name}={value}".encode(), session).at, timeout_s).left)


class _Matcher:
    """Decides whether a process carries the mark or belongs to the session."""

    def __init__(self, mark: bytes, session: int | None) -> None:
        self._mark = mark
        self._session = session

    def at(self, pid: int) -> Verdict:
        """`unclear`: the process has an empty environment, perhaps because it is just executing a program."""
        environ = environment(pid)
        if environ is None:
            return "not ours"
        if self._mark in environ and self._mark in environ.split(b"\0"):
            return "ours"
        if sys.platform != "linux" or (environ and self._session is None):
            return "not ours"
        stat = _stat(pid)
        if stat is None or not stat.alive:
            return "not ours"
        if stat.session == self._session:
            return "ours"
        return "not ours" if environ or stat.of_kernel else "unclear"


class _ProcStat:
    """The fields of `/proc/PID/stat` that are used here."""

    __slots__ = ("alive", "group", "of_kernel", "session")

    def __init__(self, text: bytes) -> None:
        fields = text.rpartition(b")")[2].split()
        self.alive = fields[0] not in (b"Z", b"X", b"x")
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.of_kernel = bool(int(fields[6]) & _KERNEL_THREAD)


def _stat(pid: int) -> _ProcStat | None:
    try:
        return _ProcStat(read_proc(pid, "stat"))
    except (OSError, ValueError, IndexError):
        return None


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None
