"""Whose process is on the other end: the rule about another user's connections, not the lookup itself.

The lookup of a socket's owner is `host/peer_uid.py`; it is passed in.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from manager.routing.request_heads.admission import AdmissionRefusal

PeerCheck = Callable[[asyncio.BaseTransport], bool]
"""Whether the peer of a connection may be served; asked once for each."""

OTHER_USER: Final = AdmissionRefusal(403, "this server serves another user; start your own with lmtb serve")

Address = tuple[str, int]
PeerUid = Callable[[Address, Address], int | None]
"""(our address, the peer's address) -> the user id that owns the peer's socket, None when it is not known."""


class SameUser:
    """Lets in only connections of our own user; root is no exception.

    `lookup_works` decides what an unknown owner means. Where the platform has no lookup, nobody could ever
    connect otherwise, and the other rules of the door still hold. Where it has one, unknown means that the
    socket is gone: a stranger who sends a call and closes at once must not slip through, so it is refused.
    (A closed socket is also reported as root's: one more reason for root not to be let in.)
    """

    def __init__(self, peer_uid: PeerUid, own_uid: int, *, lookup_works: bool) -> None:
        self._peer_uid = peer_uid
        self._own_uid = own_uid
        self._lookup_works = lookup_works

    def __call__(self, transport: asyncio.BaseTransport) -> bool:
        """Whether the peer of this connection may be served."""
        local, remote = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        uid = self._peer_uid(local[:2], remote[:2]) if local and remote else None
        return uid == self._own_uid if uid is not None else not self._lookup_works


def lookup_works(peer_uid: PeerUid, own_uid: int) -> bool:
    """Ask for the owner of a loopback connection of our own, once at start: is the answer our user?"""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()[:2]) as client,
    ):
        return peer_uid(server.getsockname()[:2], client.getsockname()[:2]) == own_uid
