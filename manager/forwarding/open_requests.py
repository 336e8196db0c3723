"""Counts the requests that are being answered, so that the manager can finish them before it stops."""

from __future__ import annotations

import asyncio
import contextlib


class OpenRequests:
    """The number of requests that are being answered, on any path."""

    __slots__ = ("_count", "_idle")

    def __init__(self) -> None:
        self._count = 0
        self._idle: asyncio.Event | None = None

    def begin(self) -> None:
        """Count a request that begins."""
        self._count += 1

    def end(self) -> None:
        """Count a request that has ended."""
        self._count -= 1
        if not self._count and self._idle is not None:
            self._idle.set()

    async def drained(self, seconds: float) -> bool:
        """Wait at most `seconds` until no request is open; return whether none is."""
        self._idle = self._idle or asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._count:
                    self._idle.clear()
                    await self._idle.wait()
        return not self._count
