"""Decides whether the peer of a connection is served: a process of the manager's own user, or a guest.

Where the user of a connection cannot be known, every connection needs a proof: the port is never open to
others.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from lm_tools_bridge.machine.own_process import own_uid
from lm_tools_bridge.machine.peer_process import PeerSearch
from lm_tools_bridge.machine.peer_uid import tcp_peer_uid
from manager.guests import Guest, GuestGate
from manager.routing.admission import AdmissionRefusal

PeerCheck = Callable[[asyncio.BaseTransport], bool]
"""Return whether the peer of a connection may be served; called once for each connection."""

OTHER_USER: Final = AdmissionRefusal(403, "this server serves another user; start your own with lmtb up")

Address = tuple[str, int]
PeerUid = Callable[[Address, Address], int | None]
"""(our address, the peer's address) -> user id of the owner of the peer's socket; None if unknown."""


class SameUser:
    """Knows connections of the manager's own user; root is no exception.

    An unknown owner is another user: the socket is closed already, and who sends a call and closes at once
    must not be served, or the system tells no owners. (The lookup may also report a closed socket as root's.)
    """

    def __init__(self, peer_uid: PeerUid, own_uid: int) -> None:
        self._peer_uid = peer_uid
        self._own_uid = own_uid

    def __call__(self, transport: asyncio.BaseTransport) -> bool:
        """Return whether the peer of this connection is this user."""
        local, remote = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        return bool(local and remote) and self._peer_uid(local[:2], remote[:2]) == self._own_uid


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


def find_peer_lookup() -> PeerUid | None:
    """What tells the user of a connection: the kernel, else the list of processes; None if nothing does."""
    return next((lookup for lookup in (tcp_peer_uid, PeerSearch()) if lookup_works(lookup, own_uid())), None)


def same_user_check(lookup: PeerUid | None) -> PeerCheck:
    """The check for this user; without a lookup nobody is known to be this user."""
    return SameUser(lookup or _know_nobody, own_uid())


def _know_nobody(_local: Address, _remote: Address) -> None:
    return None
