"""Remembers workspaces that lost their registered server, until one comes or a client makes a handshake.

Their calls are refused meanwhile: a server of the manager's own has other tools than the clients know. After
a start they wait for the servers that the previous manager had, which register again with their next
heartbeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

MAX_DEPARTURES: Final = 4096
"""Workspaces that are remembered. When there are more, all are forgotten."""
RETURN_S: Final = 2.5
"""Seconds that calls wait after a start; a registered server sends a heartbeat each second."""
_LOOK_S: Final = 0.25


class Departures:
    """The roots without a server that had a registered one, and since when."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._awaited: frozenset[str] = frozenset()
        self._awaited_until = 0.0

    def restore(self, roots: Collection[str], now: float) -> None:
        """Take over the roots whose registered server the previous manager had, at monotonic time `now`."""
        self.update(dict.fromkeys(roots, False), now)
        self._awaited, self._awaited_until = frozenset(roots), now + RETURN_S

    def update(self, changed: Mapping[str, bool], now: float) -> None:
        """Note roots that got a server (true) or lost their last one (false) at monotonic time `now`."""
        for root, is_served in changed.items():
            self._since.pop(root, None)
            if not is_served:
                if len(self._since) >= MAX_DEPARTURES:
                    self._since.clear()
                self._since[root] = now

    def since(self, root: str) -> float | None:
        """Monotonic time when this root lost its server; None if it has one or never had one."""
        return self._since.get(root)

    def forget(self, root: str) -> None:
        """A client made a handshake: from now on the manager's own server serves this root."""
        self._since.pop(root, None)

    def is_awaited(self, root: str, now: float) -> bool:
        """Whether the server of this root may still register again after the manager's start."""
        return now < self._awaited_until and root in self._awaited and root in self._since

    async def returned(self, root: str, changed: asyncio.Event, now: Callable[[], float]) -> None:
        """Wait while `is_awaited`. `changed` is set by every change of a registration."""
        while self.is_awaited(root, now()):
            changed.clear()
            try:
                async with asyncio.timeout(min(_LOOK_S, self._awaited_until - now())):
                    await changed.wait()
            except TimeoutError:
                continue
