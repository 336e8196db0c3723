"""Watches, kills and sweeps processes, and says in words how one ended.

Where the system has no pidfds, callers poll and signal by number.

A process may start another one during a search, so one pass is not enough. All functions block; call them in
a thread.
"""

from __future__ import annotations

import errno
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from lm_tools_bridge.machine import file_calls

KILL: Final[signal.Signals] = getattr(signal, "SIGKILL", signal.SIGTERM)
"""Ends a process that does not want to. Windows ends every process that is sent SIGTERM."""


def open_pidfd(pid: int) -> int | None:
    """A descriptor that is readable once the process has ended, or None. The caller closes it."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        pidfd: int = os.pidfd_open(pid)
    except OSError:
        return None
    return pidfd


def require_pidfd(pid: int) -> int:
    """Like `open_pidfd`, for what runs only where pidfds exist.

    Raises:
        OSError: the process has ended, or the system has none.
    """
    if not hasattr(os, "pidfd_open"):
        raise OSError(errno.ENOSYS, "this system has no pidfds")
    pidfd: int = os.pidfd_open(pid)
    return pidfd


def has_ended(pidfd: int) -> bool:
    """Whether the process has ended, also if its parent has not reaped it yet."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))


def kill_if(pid: int, is_ours: Callable[[int], bool]) -> bool:
    """Send SIGKILL if `is_ours(pid)` holds while a pidfd keeps the pid from being reused.

    Without pidfds the signal is sent unconditionally: the caller has just found the process.

    Returns:
        Whether the signal was sent.
    """
    try:
        if not hasattr(os, "pidfd_open") or not hasattr(signal, "pidfd_send_signal"):
            os.kill(pid, KILL)
            return True
        pidfd = os.pidfd_open(pid)
        try:
            if not is_ours(pid):
                return False
            signal.pidfd_send_signal(pidfd, KILL)
            return True
        finally:
            os.close(pidfd)
    except OSError:  # it has ended, or belongs to another user
        return False


def exit_code_unreaped(pid: int) -> int | None:
    """How a child ended (negative: the signal), which stays unreaped; None while it runs.

    Raises:
        ChildProcessError: it is no child of this process.
        NotImplementedError: the system reaps a child with the first look (macOS before Python 3.13).
    """
    if sys.platform == "win32" or not hasattr(os, "waitid"):
        raise NotImplementedError
    end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if end is None:
        return None
    status: int = end.si_status
    return status if end.si_code == os.CLD_EXITED else -status


def reap_child(pid: int, kill_rest: Callable[[], None]) -> int | None:
    """The exit code of a process that has ended, if it is a child of this one; else None.

    Args:
        kill_rest: ends what is left of its group; called before the reaping, which frees the group's id.
    """
    if sys.platform == "win32" or not _is_child(pid):
        return None
    kill_rest()
    with suppress(ChildProcessError):  # somebody else has reaped it meanwhile
        reaped, status = os.waitpid(pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if reaped else None
    return None


def _is_child(pid: int) -> bool:
    try:
        exit_code_unreaped(pid)
    except ChildProcessError:
        return False
    except NotImplementedError:
        import psutil

        try:
            return psutil.Process(pid).ppid() == os.getpid()
        except psutil.Error:
            return False
    return True


KERNEL_COUNTERS: Final = Path("/proc/vmstat")
_KILLS: Final = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def memory_kills(counters: Path = KERNEL_COUNTERS) -> int | None:
    """How many processes the kernel has ended because memory ran out; None if it does not say."""
    try:
        match = _KILLS.search(counters.read_text())
    except OSError:
        return None
    return None if match is None else int(match[1])


class Ending:
    """The words for the end of one process; made when the process starts.

    Args:
        counters: the kernel's file of counters.
    """

    __slots__ = ("_counters", "_kills")

    def __init__(self, counters: Path = KERNEL_COUNTERS) -> None:
        self._counters = counters
        self._kills = memory_kills(counters)

    def words(self, code: int | None) -> str:
        """How the process ended.

        The kernel does not say which processes it ended, so the cause in the words is a probable one.

        Args:
            code: its exit code, negative for a signal; None if it is unknown.
        """
        if code is None:
            return "ended, nobody knows with which exit code"
        if code >= 0:
            return f"exited with code {code}"
        words = f"was ended by {_signal(-code)}"
        if code == -KILL and (kills := self._kills_meanwhile()):
            subject = "a process" if kills == 1 else f"{kills} processes"
            return f"{words}, probably because memory ran out: the kernel ended {subject} for that meanwhile"
        return words

    def _kills_meanwhile(self) -> int:
        now = memory_kills(self._counters)
        return 0 if now is None or self._kills is None else now - self._kills


def _signal(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


# Between two searches: a process that was executing a program shows its environment by then. A longer pause
# gives a process that forks more time.
_PAUSE_S: Final = 0.005
_MAX_DOUBTS: Final = 2  # a process may have no environment for its whole life

Verdict = Literal["ours", "not ours", "unclear"]
"""Whether a process is to be killed; `unclear`: look again, because it may just be executing a program."""
Judge = Callable[[int], Verdict]
"""Decides about the process with this pid."""


class Sweep(msgspec.Struct, frozen=True):
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
    descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | file_calls.CLOSE_ON_EXEC)
    try:
        parts = []
        while part := os.read(descriptor, 1 << 17):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
