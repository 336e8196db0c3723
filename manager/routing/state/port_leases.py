"""Port reservations: between the answer to `/allocate` and the first heartbeat a port belongs to its asker.

Pure. Whether the system would let a port be bound is asked through a function that is passed in; who *lives*
on which port is known by `registrations.py` and the daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

LIFETIME_S: Final = 15.0
LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class PortLease:
    """A port kept for one asker until `expires_at`, in monotonic seconds."""

    session_id: str
    port: int
    expires_at: float


@dataclass(frozen=True, slots=True)
class PortExhausted:
    """No port from `start` up to 65535 is free."""

    start: int


class PortLeases:
    """All reservations, at most one for each asker, each port at most once."""

    def __init__(self) -> None:
        # The oldest first: a renewal moves a lease to the end, so expiry looks at the beginning only.
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
            session_id: the asker. A lease it has from `start` upwards is renewed, a lower one released.
            start: the lowest port that will do, 1 to 65535.
            now: monotonic seconds; must not go back between calls.
            in_use: ports of live instances other than the asker's.
            own_port: the manager's.
            bindable: whether the system lets 127.0.0.1 with this port be bound now. Not asked for a
                renewal: the asker itself may have bound the port already.
            present: the port of the asker's own live instance, which it is given whatever it asked for.
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
        """End a reservation: its holder sent a heartbeat or said bye. Returns it if there was one."""
        lease = self._leases.pop(session_id, None)
        if lease is not None:
            self._ports.discard(lease.port)
        return lease

    def sweep(self, now: float) -> list[PortLease]:
        """End the reservations whose 15 s are over, and return them."""
        expired: list[PortLease] = []
        for lease in self._leases.values():
            if lease.expires_at > now:
                break
            expired.append(lease)
        for lease in expired:
            self.release(lease.session_id)
        return expired

    def current(self) -> tuple[PortLease, ...]:
        """The reservations as of the last call that told the time, the oldest first."""
        return tuple(self._leases.values())

    def _keep(self, session_id: str, port: int, now: float) -> int:
        self._leases[session_id] = PortLease(session_id, port, now + LIFETIME_S)
        self._ports.add(port)
        return port
