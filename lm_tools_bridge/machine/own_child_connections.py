"""Decides whether a connection comes from a program that we started, which must not decide for the user.

`is_own_child_connection` is the one question of every listener. Elsewhere than on Linux the processes of this
user are asked for their connections.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from functools import partial

from lm_tools_bridge.machine.own_children import is_hidden_own_child, is_own_child
from lm_tools_bridge.machine.peer_process import (
    peer_pids,
    possible_holders,
    socket_holders,
    unreadable_processes,
)
from lm_tools_bridge.machine.peer_uid import Address, tcp_peer_inode, tcp_peer_owner, unix_peer_pid


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
    return pid is None or is_own_child(pid)


def is_own_child_tcp_peer(local: Address, remote: Address) -> bool:
    """Whether a process at the other end of a loopback connection is such a child, or may be one.

    Looks at the open files of all processes of this user: for rare questions. A socket of this user that no
    process shows may be that of a child which made itself unreadable, or keeps sockets where they are not
    shown, if there is one. Any other belongs to a container, to another user or to a login.

    Args:
        local, remote: as for `peer_uid.tcp_peer_uid`.
    """
    if sys.platform != "linux":
        (pid,) = peer_pids([(local, remote)])
        return pid is None or is_own_child(pid)
    owner = tcp_peer_owner(local, remote)
    if owner is None:
        return True  # closed: whoever it was does not wait for what follows
    holders = list(socket_holders(owner.inode))
    if holders:
        return any(map(is_own_child, holders))
    if tcp_peer_inode(local, remote) != owner.inode:
        return True  # it ended meanwhile
    if owner.uid != os.geteuid():
        return False
    hiding = any(map(is_own_child, possible_holders(owner.inode)))
    return hiding or any(map(is_hidden_own_child, unreadable_processes()))
