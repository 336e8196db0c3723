"""Reserves a port for its requester, from the answer to `/allocate` until the first heartbeat.

A function argument tells whether a port can be bound. `registrations.py` knows the ports of running servers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import msgspec

LIFETIME_S: Final = 15.0
"""Seconds from the reservation to the first heartbeat. A window of an editor binds its port and sends one
within a second, but not on a machine that is just starting."""
LAST_PORT: Final = 65535
"""The highest port of TCP."""


class PortLease(msgspec.Struct, frozen=True):
    """A port reserved for one server until `expires_at`, in monotonic seconds."""

    session_id: str
    port: int
    expires_at: float


class PortExhausted(msgspec.Struct, frozen=True):
    """No port from `start` up to 65535 is free."""

    start: int


class PortLeases:
    """All leases: at most one for each server and one for each port."""

    def __init__(self) -> None:
        # Oldest first: renewal moves a lease to the end, so that `sweep` can stop at the first valid lease.
        self._leases: dict[str, PortLease] = {}
        self._ports: set[int] = set()

    def allocate(
        self,
        session_id: str,
        start: int,
        now: float,
        *,
        in_use: Collection[int],
        own_port: int,
        bindable: Callable[[int], bool],
        present: int | None = None,
    ) -> int | PortExhausted:
        """Give `session_id` the first free port from `start` upwards.

        Args:
            session_id: the requester. Its lease is renewed if the port is at least `start`, else released.
            start: the lowest acceptable port, 1 to 65535.
            now: monotonic seconds; must not decrease between calls.
            in_use: ports of other running instances.
            own_port: the manager's port.
            bindable: whether 127.0.0.1 with this port can be bound now. Not called for a renewal, because the
                requester may have bound the port already.
            present: the port of the requester's own running instance; returned if given.
        """
        self.sweep(now)
        if present is not None:
            self.release(session_id)
            return present
        lease = self.release(session_id)
        if lease is not None and lease.port >= start and lease.port not in in_use:
            return self._keep(session_id, lease.port, now)
        for port in range(start, LAST_PORT + 1):
            taken = port == own_port or port in self._ports or port in in_use
            if not taken and bindable(port):
                return self._keep(session_id, port, now)
        return PortExhausted(start)

    def release(self, session_id: str) -> PortLease | None:
        """End the lease of a server and return it; None if it has none."""
        lease = self._leases.pop(session_id, None)
        if lease is not None:
            self._ports.discard(lease.port)
        return lease

    def sweep(self, now: float) -> list[PortLease]:
        """End the leases that are older than `LIFETIME_S`, and return them."""
        expired: list[PortLease] = []
        for lease in self._leases.values():
            if lease.expires_at > now:
                break
            expired.append(lease)
        for lease in expired:
            self.release(lease.session_id)
        return expired

    def current(self) -> tuple[PortLease, ...]:
        """The leases as of the last call with a time, oldest first."""
        return tuple(self._leases.values())

    def _keep(self, session_id: str, port: int, now: float) -> int:
        self._leases[session_id] = PortLease(session_id, port, now + LIFETIME_S)
        self._ports.add(port)
        return port
