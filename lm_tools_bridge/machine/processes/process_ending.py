"""Says in words how a process ended, and whether memory ran out meanwhile."""

from __future__ import annotations

import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

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
        if code == -signal.SIGKILL and (kills := self._kills_meanwhile()):
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
