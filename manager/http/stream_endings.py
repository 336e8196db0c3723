"""Ends all open-ended streams when the manager stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class StreamEndings:
    """The functions to call when the manager stops."""

    def __init__(self) -> None:
        self._calls: set[Callable[[], None]] = set()
        self._have_ended = False

    def add(self, call: Callable[[], None]) -> None:
        """Call `call` when streams end; at once if they have ended."""
        if self._have_ended:
            call()
        else:
            self._calls.add(call)

    def discard(self, call: Callable[[], None]) -> None:
        """Forget a stream that ended by itself. Idempotent."""
        self._calls.discard(call)

    def end_all(self) -> None:
        """End all streams, and from now on each new one at once."""
        self._have_ended = True
        calls, self._calls = self._calls, set()
        for call in calls:
            call()

    async def wait(self) -> None:
        """Return when streams end."""
        over = asyncio.Event()
        self.add(over.set)
        try:
            await over.wait()
        finally:
            self.discard(over.set)
