"""Remembers workspaces that lost their registered server, until one comes or a client makes a handshake.

Their calls are refused meanwhile: a server of the manager's own has other tools than the clients know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MAX_DEPARTURES: Final = 4096
"""Workspaces that are remembered. When there are more, all are forgotten."""


class Departures:
    """The roots without a server that had a registered one, and since when."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

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
