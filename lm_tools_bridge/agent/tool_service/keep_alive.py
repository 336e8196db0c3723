"""Sends pings over a WebSocket and closes it if a pong does not come in time."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

PING_S: Final = 30.0
PONG_S: Final = 5.0


class Pingable(Protocol):
    """What of a WebSocket is needed here."""

    async def ping(self, message: bytes = b"") -> None:
        """Send a ping."""

    async def close(self) -> object:
        """Close the connection."""


class KeepAlive:
    """Pings one connection. Its reader has to call `pong` for each pong that arrives."""

    def __init__(self, connection: Pingable, ping_s: float = PING_S, pong_s: float = PONG_S) -> None:
        self._connection = connection
        self._ping_s = ping_s
        self._pong_s = pong_s
        self._pong = asyncio.Event()
        self.is_lost = False

    def pong(self) -> None:
        """A pong has arrived."""
        self._pong.set()

    async def run(self) -> None:
        """Ping until a pong is missing; then `is_lost` is set, and the connection is being closed."""
        while True:
            await asyncio.sleep(self._ping_s)
            self._pong.clear()
            try:
                async with asyncio.timeout(self._pong_s):
                    await self._connection.ping()
                    await self._pong.wait()
            except (TimeoutError, ConnectionError):
                self.is_lost = True
                await self._connection.close()
                return
