"""Publishes this host: its entry when that changes and once an hour, and a heartbeat every ten seconds."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from lm_tools_bridge.team.names import ALIVE_BUCKET, HOSTS_BUCKET
from lm_tools_bridge.team.registry import bucket
from lm_tools_bridge.team.registry.bucket import RegistryFault
from lm_tools_bridge.team.registry.entry import AliveEntry, HostEntry, encoded
from manager.log import logger

BEAT_S: Final = 10.0
"""A host that vanished is known after `ALIVE_TTL_S`; a thousand hosts send a hundred messages a second."""
_SAID_BEATS: Final = 6
"""Heartbeats for which it is said that somebody else wrote the entry."""
_LAST_SENT: Final = 8
"""What this host stored comes back late, after it stored something newer: edits may follow each other fast.
"""
_CONTESTED: Final = (
    "somebody else writes the entry of this host: another host has its name, or a member forges it"
)
RENEW_S: Final = 3600.0
"""A third of the time for which entries stay (`ENTRY_TTL_S`): two renewals may be lost."""


class Publisher:
    """Publishes one host.

    Attributes:
        error: why the last entry was not stored, or that somebody else changed it.
    """

    def __init__(self, host: str, alive: Callable[[], AliveEntry]) -> None:
        """`alive` makes the heartbeat."""
        self.error: str | None = None
        self._host = host
        self._alive = alive
        self._entry: bytes | None = None
        self._published: bytes | None = None
        self._may_be_there = False
        self._sent: deque[bytes | None] = deque(maxlen=_LAST_SENT)
        self._contested = 0
        self._until_renewal = 0.0
        self._wake = asyncio.Event()

    @property
    def is_published(self) -> bool:
        """Whether the registry has the entry as it is now."""
        return self._published is not None and self._published == self._entry

    def change(self, entry: HostEntry | None) -> None:
        """Publish this from now on; None removes the entry, for a host that offers nothing."""
        self._entry = None if entry is None else encoded(entry)
        self._wake.set()

    def renew(self) -> None:
        """Publish everything again: what the registry has may be lost."""
        self._until_renewal = 0.0
        self._wake.set()

    def heard(self, payload: bytes | None, is_copy: bool) -> None:
        """The entry of this host was stored. If somebody else did it, it is published again.

        With the next heartbeat: two hosts of one name would otherwise answer each other without a pause.

        Args:
            payload: what was stored; None if it was removed.
            is_copy: whether JetStream sent it, which is not the way of this host.
        """
        if not is_copy and (payload in self._sent or (payload is None and self._entry is None)):
            return
        self._until_renewal = 0.0
        self._may_be_there |= is_copy  # also a host without offers removes what is forged
        if not self._contested:
            logger().warning("team.entry_contested", host=self._host)
        self.error, self._contested = _CONTESTED, _SAID_BEATS

    async def run(self, client: Any) -> None:
        """Publish until it is cancelled. A host without offers sends nothing."""
        while True:
            self._wake.clear()
            try:
                await self._publish(client)
            except RegistryFault as error:
                if self.error != str(error):
                    logger().warning("team.not_published", why=str(error))
                self.error = str(error)
            else:
                self.error = _CONTESTED if self._contested else None
                self._contested = max(0, self._contested - 1)
            pause = BEAT_S * (0.9 + 0.2 * random.random())  # noqa: S311  spreads hosts
            self._until_renewal -= pause
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def leave(self, client: Any) -> None:
        """Remove the entry and the heartbeat, so that nobody asks this host any more."""
        if not self._may_be_there:
            return
        try:
            self._sent.append(None)
            await bucket.put(client, ALIVE_BUCKET, self._host, None)
            await bucket.put(client, HOSTS_BUCKET, self._host, None)
        except RegistryFault as error:
            logger().info("team.not_removed", why=str(error))
        else:
            self._published, self._may_be_there = None, False

    async def beat(self, client: Any) -> None:
        """Send a heartbeat now, for example because the host begins to drain.

        Raises:
            RegistryFault: it was not stored.
        """
        if self._published is not None:
            await bucket.put(client, ALIVE_BUCKET, self._host, encoded(self._alive()))

    async def _publish(self, client: Any) -> None:
        if not client.is_connected:
            return
        if self._entry is None:
            await self.leave(client)
            return
        if self._entry != self._published or self._until_renewal <= 0:
            self._may_be_there = True  # also if this is cancelled before the answer
            self._sent.append(self._entry)
            await bucket.put(client, HOSTS_BUCKET, self._host, self._entry)
            self._published, self._until_renewal = self._entry, RENEW_S
        await self.beat(client)
