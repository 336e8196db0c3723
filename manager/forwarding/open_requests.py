"""Counts the requests that are being answered, so that a stop can wait for them."""

from __future__ import annotations

import asyncio
import contextlib


class OpenRequests:
    """The requests that are being answered, by whatever path."""

    __slots__ = ("_count", "_idle")

    def __init__(self) -> None:
        self._count = 0
        self._idle: asyncio.Event | None = None

    def begin(self) -> None:
        """Count one more."""
        self._count += 1

    def end(self) -> None:
        """Count one less."""
        self._count -= 1
        if not self._count and self._idle is not None:
            self._idle.set()

    async def drained(self, seconds: float) -> bool:
        """Wait until there is none, for at most so many seconds; return whether there is none."""
        self._idle = self._idle or asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._count:
                    self._idle.clear()
                    await self._idle.wait()
        return not self._count
