"""Watches and kills processes by file descriptor (pidfd_open(2)), safe from reused pids.

Where the system has no pidfds, callers poll and signal by number.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable


def open_pidfd(pid: int) -> int | None:
    """A descriptor that is readable once the process has ended, or None. The caller closes it."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


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
        if not hasattr(os, "pidfd_open"):
            os.kill(pid, signal.SIGKILL)
            return True
        pidfd = os.pidfd_open(pid)
        try:
            if not is_ours(pid):
                return False
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            return True
        finally:
            os.close(pidfd)
    except OSError:  # it has ended, or belongs to another user
        return False
