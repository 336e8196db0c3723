"""Notices a server that hangs: it answers neither some requests in a row nor the ping that follows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from workspace_server.sources.mcp.failures import Unavailable

SILENT_S: Final = 10.0
"""A request that was given up sooner says nothing about its server."""
REQUESTS: Final = 2
"""So many requests in a row have to be given up without a word from the server."""
PING_S: Final = 10.0
"""How long a server that seems to hang may take to answer a ping."""


class HangCheck:
    """Watches one connection. `RpcConnection` reports to it what it sends, hears and gives up."""

    def __init__(
        self, clock: Callable[[], float], silent_s: float = SILENT_S, ping_s: float = PING_S
    ) -> None:
        """`clock` gives monotonic seconds; a request counts from `silent_s` on."""
        self.now = clock
        self._silent_s = silent_s
        self._ping_s = ping_s
        self._heard_at = float("-inf")
        self._given_up = 0
        self._asking: asyncio.Task[None] | None = None

    def heard(self) -> None:
        """The server sent something, whatever it was."""
        self._heard_at = self.now()
        self._given_up = 0

    def given_up(
        self, sent_at: float, ping: Callable[[], Awaitable[object]], end: Callable[[str], object]
    ) -> None:
        """A request sent at this time was given up. If the server seems to hang, ping it.

        Args:
            sent_at: time of `now`.
            ping: sends a ping and waits for anything that answers it.
            end: called with the reason if nothing does.
        """
        if self._heard_at >= sent_at or self.now() - sent_at < self._silent_s:
            return
        self._given_up += 1
        if self._given_up >= REQUESTS and self._asking is None:
            self._asking = asyncio.create_task(self._ask(ping, end), name="ping")

    def stop(self) -> None:
        """Stop waiting for the answer to a ping."""
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self, ping: Callable[[], Awaitable[object]], end: Callable[[str], object]) -> None:
        try:
            async with asyncio.timeout(self._ping_s):
                await ping()
        except TimeoutError:
            end(f"it hangs: no answer to {REQUESTS} requests, nor to a ping within {self._ping_s:g} s")
        except Unavailable:
            pass  # it has ended already
        finally:
            self._asking = None
