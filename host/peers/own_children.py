"""Recognises processes that a workspace server started, and their descendants, which must not act for users.

Every child carries a mark in its environment. A child that clears it is still known by its ancestors, unless
it leaves them as well: that is no protection against hostile programs of the user. Linux only.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Final

from host.peers.peer_process import socket_holders
from host.peers.peer_uid import Address, tcp_peer_inode, unix_peer_pid
from protocol import names

MOST_ANCESTORS: Final = 64
_MARKS: Final = tuple(f"{name}=".encode() for name in (names.CHILD_VARIABLE, names.INSTANCE_VARIABLE))


def is_own_child_peer(sock: socket.socket) -> bool:
    """Whether the process that connected a unix socket is such a child, or may be one: it has ended."""
    if sys.platform != "linux":
        return False
    pid = unix_peer_pid(sock)
    return pid is None or is_own_child(pid)


def is_own_child_tcp_peer(local: Address, remote: Address) -> bool:
    """Whether a process at the other end of a loopback connection is such a child, or may be one.

    Looks at the open files of all processes of this user: for rare questions. A socket that no visible
    process has is not a child's: its process is in a container, or of another user.

    Args:
        local, remote: as for `peer_uid.tcp_peer_uid`.
    """
    if sys.platform != "linux":
        return False
    inode = tcp_peer_inode(local, remote)
    if inode is None:
        return True  # closed: whoever it was does not wait for what follows
    holders = list(socket_holders(inode))
    if holders:
        return any(map(is_own_child, holders))
    return tcp_peer_inode(local, remote) != inode  # it ended meanwhile


def are_we_own_child() -> bool:
    """Whether this process is such a child. Without /proc, only its own environment is looked at."""
    if sys.platform != "linux":
        return any(name in os.environ for name in (names.CHILD_VARIABLE, names.INSTANCE_VARIABLE))
    return is_own_child(os.getpid())


def is_own_child(pid: int) -> bool:
    """Whether a process carries the mark, or has an ancestor that does. True if it is gone or unreadable."""
    peer = pid
    for _ in range(MOST_ANCESTORS):
        if pid <= 1:
            return False
        try:
            if _is_marked(Path(f"/proc/{pid}/environ").read_bytes()):
                return True
        except PermissionError:
            if pid == peer:  # it hides its environment, although it is of our user
                return True  # else an ancestor of another user, such as a login
        except OSError:
            return True
        parent = _parent(pid)
        if parent is None:
            return True
        pid = parent
    return True


def _is_marked(environment: bytes) -> bool:
    return any(entry.startswith(_MARKS) for entry in environment.split(b"\0"))


def _parent(pid: int) -> int | None:
    try:
        _, _, rest = Path(f"/proc/{pid}/status").read_bytes().partition(b"\nPPid:\t")
        return int(rest.split(maxsplit=1)[0])
    except (OSError, IndexError, ValueError):
        return None
