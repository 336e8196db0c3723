"""Proves that a program of this user serves a connection, before anything is sent that others must not get.

Any user can listen on a free port of this machine, also on the manager's while none runs.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Final

from lm_tools_bridge.machine.own_process import own_uid
from lm_tools_bridge.machine.peer_uid import Address, is_served_by_us, tcp_listener, tcp_peer_uid

_EVERY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104  compared, not listened on


class ServedByOthers(OSError):
    """A program of another user serves a connection, or it is unknown whose. The message is for people."""


def require_own_server(local: Address, remote: Address, *, has_secret: bool) -> None:
    """Raise ServedByOthers unless something may be sent to the other end of a connection.

    Args:
        local, remote: as the connecting socket sees them (`getsockname()`, `getpeername()`).
        has_secret: whether a secret is sent, so that the owner must be known; else he must be no other.
    """
    listener = tcp_listener(remote)
    if listener is None:  # it may have accepted the connection and closed, as when a manager is replaced
        is_ours = (
            not has_secret or tcp_peer_uid(local, remote) == own_uid() or _is_listener_of_this_user(remote)
        )
    else:
        is_ours = is_served_by_us(local, remote)
    if not is_ours:
        place = f"{remote[0]}:{remote[1]}"
        raise ServedByOthers(f"what listens on {place} is no program of yours, so nothing was sent to it")


def _is_listener_of_this_user(remote: Address) -> bool:
    """The same by the list of processes, where the kernel tells no owners: it takes 100 ms."""
    if sys.platform == "win32":
        return False
    import psutil

    places = {(host, remote[1]) for host in (remote[0], *_EVERY_ADDRESS)}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # of another user, or ended
            if process.uids().real == own_uid() and any(
                entry.status == psutil.CONN_LISTEN and tuple(entry.laddr) in places
                for entry in process.net_connections("tcp")
            ):
                return True
    return False
