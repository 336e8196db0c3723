"""Recognises programs that we started, and their descendants, which must not decide for the user.

They are known by a mark in their environment or in that of an ancestor; confined scripts by limits that they
cannot lift, whatever they clear. A program that clears its environment and leaves its ancestors is not known
unless it is confined: that is no protection against hostile programs of the user. Linux only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine.peers.confined_process import is_confined
from lm_tools_bridge.protocol import names

MOST_ANCESTORS: Final = 64
_MARKS: Final = tuple(f"{name}=".encode() for name in (names.CHILD_VARIABLE, names.INSTANCE_VARIABLE))


def are_we_own_child() -> bool:
    """Whether this process is such a child. Without /proc, only its own environment is looked at."""
    if sys.platform != "linux":
        return any(name in os.environ for name in (names.CHILD_VARIABLE, names.INSTANCE_VARIABLE))
    return is_own_child(os.getpid())


def is_own_child(pid: int) -> bool:
    """Whether a process is confined, carries the mark, or has an ancestor that does.

    True if it is gone or hides its environment.
    """
    return is_confined(pid) or _is_marked(pid, hiding_counts=True)


def is_hidden_own_child(pid: int) -> bool:
    """Like `is_own_child`, for a process that hides its environment as logins and agents of keys do."""
    return is_confined(pid) or _is_marked(pid, hiding_counts=False)


def _is_marked(pid: int, *, hiding_counts: bool) -> bool:
    peer = pid
    for _ in range(MOST_ANCESTORS):
        if pid <= 1:
            return False
        try:
            if _has_mark(Path(f"/proc/{pid}/environ").read_bytes()):
                return True
        except PermissionError:
            if pid == peer and hiding_counts:  # it hides its environment, although it is of our user
                return True  # else an ancestor of another user, such as a login
        except OSError:
            return True
        parent = _parent(pid)
        if parent is None:
            return True
        pid = parent
    return True


def _has_mark(environment: bytes) -> bool:
    return any(entry.startswith(_MARKS) for entry in environment.split(b"\0"))


def _parent(pid: int) -> int | None:
    try:
        _, _, rest = Path(f"/proc/{pid}/status").read_bytes().partition(b"\nPPid:\t")
        return int(rest.split(maxsplit=1)[0])
    except (OSError, IndexError, ValueError):
        return None
