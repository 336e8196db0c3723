"""Streams that have no end of their own, and the moment in which all of them end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Endings:
    """What is called when the manager stops."""

    def __init__(self) -> None:
        self._calls: set[Callable[[], None]] = set()
        self._are_over = False

    def add(self, call: Callable[[], None]) -> None:
        """Call this when streams are to end; at once where they are."""
        if self._are_over:
            call()
        else:
            self._calls.add(call)

    def discard(self, call: Callable[[], None]) -> None:
        """It has ended by itself. Idempotent."""
        self._calls.discard(call)

    def end_all(self) -> None:
        """Streams are to end, from now on also those that begin."""
        self._are_over = True
        calls, self._calls = self._calls, set()
        for call in calls:
            call()

    async def wait(self) -> None:
        """Return when streams are to end."""
        over = asyncio.Event()
        self.add(over.set)
        try:
            await over.wait()
        finally:
            self.discard(over.set)
