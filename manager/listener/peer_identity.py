"""Decides whether the peer of a connection is served: a process of the manager's own user, or a guest."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from typing import Final

from lm_tools_bridge.machine.peer_uid import tcp_peer_uid
from manager.guests import Guest, GuestGate
from manager.log import logger
from manager.routing.admission import AdmissionRefusal

PeerCheck = Callable[[asyncio.BaseTransport], bool]
"""Return whether the peer of a connection may be served; called once for each connection."""

OTHER_USER: Final = AdmissionRefusal(403, "this server serves another user; start your own with lmtb up")

Address = tuple[str, int]
PeerUid = Callable[[Address, Address], int | None]
"""(our address, the peer's address) -> user id of the owner of the peer's socket; None if unknown."""


class SameUser:
    """Admits only connections of the manager's own user; root is no exception.

    `lookup_works` decides what an unknown owner means. Where the platform has no lookup, the peer is
    admitted, because nobody could connect otherwise, and the other rules of admission still hold. Where it
    has one, the socket is closed already, and the peer is refused: another user who sends a call and closes
    at once must not be served. (The lookup may also report a closed socket as root's.)
    """

    def __init__(self, peer_uid: PeerUid, own_uid: int, *, lookup_works: bool) -> None:
        self._peer_uid = peer_uid
        self._own_uid = own_uid
        self._lookup_works = lookup_works

    def __call__(self, transport: asyncio.BaseTransport) -> bool:
        """Return whether the peer of this connection may be served."""
        local, remote = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        uid = self._peer_uid(local[:2], remote[:2]) if local and remote else None
        return uid == self._own_uid if uid is not None else not self._lookup_works


def judge(
    peer_check: PeerCheck | None,
    gate: GuestGate | None,
    transport: asyncio.BaseTransport,
    end: Callable[[], None],
) -> AdmissionRefusal | Guest | None:
    """Decide about the peer of a connection.

    Args:
        end: ends the connection.

    Returns:
        None if all its requests are served, a guest if each needs a proof, or why it is not served.
    """
    is_own = peer_check is None or peer_check(transport)
    if gate is not None and gate.asks(is_own=is_own):
        return gate.guest(end, is_own=is_own)
    return None if is_own else OTHER_USER


def lookup_works(peer_uid: PeerUid, own_uid: int) -> bool:
    """Test the lookup at start-up: return whether it finds our user behind a connection of our own."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()[:2]) as client,
    ):
        return peer_uid(server.getsockname()[:2], client.getsockname()[:2]) == own_uid


def same_user_check() -> PeerCheck | None:
    """The check for this platform and user; None where users cannot be told apart."""
    if sys.platform == "win32":
        return None
    works = lookup_works(tcp_peer_uid, os.getuid())
    if not works:
        logger().warning(
            "peer check unavailable", why="the owner of a local connection cannot be looked up here"
        )
    return SameUser(tcp_peer_uid, os.getuid(), lookup_works=works)
