"""Keeps a WebSocket alive by pings, and decides by a close code whether to connect again."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

NORMAL: Final = 1000
"""RFC 6455 §7.4.1: the other end has finished, so there is nothing to connect to again."""
# pauses of 1, 2, 4, 8 and 16 s: a restart of the other end is survived, an end that is gone is told soon
ATTEMPTS: Final = 5
FIRST_S: Final = 1.0
LONGEST_S: Final = 30.0
GAVE_UP: Final = "Max reconnection attempts reached"
_WORDS: Final = {
    1000: "closed normally",
    1001: "the other side is going away",
    1002: "protocol error",
    1003: "data of a kind that is not accepted",
    1005: "closed without a code",
    1006: "the connection was lost",
    1007: "invalid text",
    1008: "refused by policy",
    1009: "the message was too large",
    1010: "a needed extension is missing",
    1011: "the server failed",
    1012: "the server restarts",
    1013: "the server is overloaded; try again later",
    1014: "a gateway failed",
    1015: "the TLS handshake failed",
}


def close_words(code: int | None) -> str:
    """What a close code means; None: the connection broke off."""
    if code is None:
        return _WORDS[1006]
    return _WORDS.get(code, f"closed with code {code}")


def reconnect_delay(attempt: int) -> float | None:
    """Seconds before attempt number `attempt`, from 1: 1, 2, 4, 8, 16; None: no further attempt."""
    return min(FIRST_S * 2.0 ** (attempt - 1), LONGEST_S) if attempt <= ATTEMPTS else None


# proxies commonly close what is silent for 60 s; an end that lives answers a ping in milliseconds
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
