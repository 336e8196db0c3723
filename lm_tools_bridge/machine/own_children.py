"""Recognises programs that we started, and connections from them: they must not decide for the user.

They are known by a mark in their environment or in that of an ancestor; confined scripts by limits that they
cannot lift, whatever they clear. A program that clears its environment and leaves its ancestors is not known
unless it is confined: that is no protection against hostile programs of the user. Elsewhere than on Linux
psutil tells environments and parents, and there are no confined scripts.

Landlock cannot keep a process from the sockets of its user, so the owners of our sockets refuse such peers.
A script can clear its environment and leave its session, but it keeps `no_new_privs` and a hard limit of file
sizes.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lm_tools_bridge.machine.peer_uid import unix_peer_pid
from lm_tools_bridge.protocol import names

if TYPE_CHECKING:
    import psutil

MAX_FILE_BYTES: Final = 16 * 1024**3
"""The hard limit of file sizes of confined scripts, by which they are recognised."""


def is_confined_peer(sock: socket.socket) -> bool:
    """Whether the process that connected a unix socket is a confined script, or may be one: it has ended."""
    if sys.platform != "linux":
        return False
    pid = unix_peer_pid(sock)
    return pid is None or is_confined(pid)


def is_confined(pid: int) -> bool:
    """Whether a process is a confined script or was started by one; True if it cannot be examined."""
    try:
        if b"\nNoNewPrivs:\t1\n" not in Path(f"/proc/{pid}/status").read_bytes():
            return False
        return _hard_file_limit(Path(f"/proc/{pid}/limits").read_bytes()) <= MAX_FILE_BYTES
    except OSError:
        return True


def _hard_file_limit(limits: bytes) -> float:
    for line in limits.splitlines():
        if line.startswith(b"Max file size"):
            hard = line.split()[4]
            return int(hard) if hard.isdigit() else float("inf")
    return 0


# Chains of parents are far shorter; the bound ends a walk during which pids are used again.
MOST_ANCESTORS: Final = 64
_MARK_NAMES: Final = (names.CHILD_VARIABLE, names.INSTANCE_VARIABLE)
_MARKS: Final = tuple(f"{name}=".encode() for name in _MARK_NAMES)


def are_we_own_child() -> bool:
    """Whether this process is such a child."""
    return any(name in os.environ for name in _MARK_NAMES) or is_own_child(os.getpid())


def is_own_child(pid: int) -> bool:
    """Whether a process is confined, carries the mark, or has an ancestor that does.

    True if it is gone or hides its environment.
    """
    if sys.platform != "linux":
        return _is_marked_elsewhere(pid)
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


def _is_marked_elsewhere(pid: int) -> bool:
    """As `_is_marked`, by psutil, which also tells a parent from a process that got its number later."""
    import psutil

    try:
        peer = psutil.Process(pid)
        return any(_carries_mark(process, is_peer=process is peer) for process in (peer, *peer.parents()))
    except psutil.Error:
        return True  # it has ended


def _carries_mark(process: psutil.Process, *, is_peer: bool) -> bool:
    import psutil

    try:
        return any(name in process.environ() for name in _MARK_NAMES)
    except psutil.AccessDenied:
        return is_peer  # it hides its environment, although it is of our user; else as a login
    except OSError:
        return is_peer


def _has_mark(environment: bytes) -> bool:
    return any(entry.startswith(_MARKS) for entry in environment.split(b"\0"))


def _parent(pid: int) -> int | None:
    try:
        _, _, rest = Path(f"/proc/{pid}/status").read_bytes().partition(b"\nPPid:\t")
        return int(rest.split(maxsplit=1)[0])
    except (OSError, IndexError, ValueError):
        return None
