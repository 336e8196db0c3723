"""Finds and kills all processes that carry a given variable (the mark) in their environment.

The last step after killing a process group: a daemon that left its group and session still has the
environment it was started with. All functions block; call them in a thread.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Final, Literal

from host.pidfd import kill_if

_PAUSE_S: Final = 0.005
_MAX_DOUBTS: Final = 2  # a process may have no environment for its whole life
_KERNEL_THREAD: Final = 0x00200000


def find_marked(name: str, value: str) -> list[int]:
    """The pids of this user's living processes with `name=value` in their environment, except our own."""
    return [pid for pid in _pids() if _Matcher(f"{name}={value}".encode(), None).at(pid) == "ours"]


def find_group(leader: int) -> list[int]:
    """The pids of living processes in the process group of `leader`, including the leader."""
    if sys.platform != "linux":
        return [pid for pid in _pids() if _group_of(pid) == leader]
    return [pid for pid in _pids() if (stat := _stat(pid)) and stat.alive and stat.group == leader]


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
    matcher = _Matcher(f"{name}={value}".encode(), session)
    deadline = time.monotonic() + timeout_s
    doubts = 0
    while True:
        found, unsure = _kill_round(matcher)
        doubts += unsure
        if not found and (not unsure or doubts > _MAX_DOUBTS):
            return []
        if time.monotonic() > deadline:
            return found
        time.sleep(_PAUSE_S)


def _kill_round(matcher: _Matcher) -> tuple[list[int], bool]:
    """Kill each match as soon as it is found, before it can fork. Also returns whether one was unclear."""
    found, unsure = [], False
    for pid in _pids():
        verdict = matcher.at(pid)
        if verdict == "ours":
            found.append(pid)
            kill_if(pid, lambda pid: matcher.at(pid) == "ours")
        elif verdict == "unclear":
            unsure = True
    return found, unsure


class _Matcher:
    """Decides whether a process carries the mark or belongs to the session."""

    def __init__(self, mark: bytes, session: int | None) -> None:
        self._mark = mark
        self._session = session

    def at(self, pid: int) -> Literal["ours", "not ours", "unclear"]:
        """`unclear`: the process has an empty environment, perhaps because it is just executing a program."""
        environment = _environment(pid)
        if environment is None:
            return "not ours"
        if self._mark in environment and self._mark in environment.split(b"\0"):
            return "ours"
        if sys.platform != "linux" or (environment and self._session is None):
            return "not ours"
        stat = _stat(pid)
        if stat is None or not stat.alive:
            return "not ours"
        if stat.session == self._session:
            return "ours"
        return "not ours" if environment or stat.of_kernel else "unclear"


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
        return _ProcStat(_read(f"/proc/{pid}/stat"))
    except (OSError, ValueError, IndexError):
        return None


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, 1 << 17):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _pids() -> list[int]:
    own = os.getpid()
    if sys.platform == "linux":
        names = os.listdir("/proc")  # noqa: PTH208  twice as fast, and there may be thousands
        return [int(name) for name in names if name.isdigit() and int(name) != own]
    import psutil  # noqa: PLC0415  slow to load, needed outside Linux only

    return [pid for pid in psutil.pids() if pid != own]


def _environment(pid: int) -> bytes | None:
    """The environment a process was started with; None if it is another user's or has ended."""
    if sys.platform == "linux":
        try:
            return _read(f"/proc/{pid}/environ")
        except OSError:
            return None
    import psutil  # noqa: PLC0415  slow to load, needed outside Linux only

    try:
        return b"\0".join(f"{key}={value}".encode() for key, value in psutil.Process(pid).environ().items())
    except (psutil.Error, OSError):
        return None


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None
