"""Decides whether a connection comes from a program that we started, which must not decide for the user.

`is_own_child_connection` is the one question of every listener. A program of ours is known by a mark in its
environment or in that of an ancestor; a confined script by limits that it cannot lift, whatever it clears. A
program that clears its environment and leaves its ancestors is not known unless it is confined: that is no
protection against hostile programs of the user. Linux only.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from host.peers.confined_process import is_confined
from host.peers.peer_process import socket_holders, unreadable_processes
from host.peers.peer_uid import Address, tcp_peer_inode, tcp_peer_owner, unix_peer_pid
from protocol import names

MOST_ANCESTORS: Final = 64
_MARKS: Final = tuple(f"{name}=".encode() for name in (names.CHILD_VARIABLE, names.INSTANCE_VARIABLE))


async def is_own_child_connection(transport: asyncio.BaseTransport | None) -> bool:
    """Whether a program that we started is at the other end, of a unix socket or of a loopback connection.

    True also where that may be: the program has ended, or hides. It takes up to some 10 ms, in a thread.
    """
    return await asyncio.to_thread(_question_about(transport))


def _question_about(transport: asyncio.BaseTransport | None) -> Callable[[], bool]:
    """The question for a thread. What names the peer is read now: its descriptor may be another's then."""
    sock = None if transport is None else transport.get_extra_info("socket")
    if transport is None or sock is None:
        return lambda: True
    if sock.family == getattr(socket, "AF_UNIX", None):
        return partial(_is_unix_peer, unix_peer_pid(sock))
    ends = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    return partial(is_own_child_tcp_peer, *ends) if all(ends) else lambda: True


def _is_unix_peer(pid: int | None) -> bool:
    return sys.platform == "linux" and (pid is None or is_own_child(pid))


def is_own_child_tcp_peer(local: Address, remote: Address) -> bool:
    """Whether a process at the other end of a loopback connection is such a child, or may be one.

    Looks at the open files of all processes of this user: for rare questions. A socket of this user that no
    readable process has may be that of a child which made itself unreadable, if there is one. Any other
    belongs to a container, to another user or to a login.

    Args:
        local, remote: as for `peer_uid.tcp_peer_uid`.
    """
    if sys.platform != "linux":
        return False
    owner = tcp_peer_owner(local, remote)
    if owner is None:
        return True  # closed: whoever it was does not wait for what follows
    holders = list(socket_holders(owner.inode))
    if holders:
        return any(map(is_own_child, holders))
    if tcp_peer_inode(local, remote) != owner.inode:
        return True  # it ended meanwhile
    return owner.uid == os.geteuid() and any(map(_is_hidden_child, unreadable_processes()))


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


def _is_hidden_child(pid: int) -> bool:
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
