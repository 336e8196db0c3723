"""The one deadline of a connection, whatever it is waiting for now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf


class Deadline:
    """Calls something after a time, unless something else comes to be expected.

    A timer that would ring earlier is left as it is and set anew when it rings, so that calls in quick
    succession need no timers.
    """

    __slots__ = ("_at", "_loop", "_on_late", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._at = inf
        self._on_late: Callable[[], None] = self.drop
        self._timer: asyncio.TimerHandle | None = None

    def expect(self, seconds: float, on_late: Callable[[], None]) -> None:
        """From now on so long, then call this."""
        self.expect_at(self._loop.time() + seconds, on_late)

    def expect_at(self, at: float, on_late: Callable[[], None]) -> None:
        """From now on until that monotonic time, then call this."""
        self._at = at
        self._on_late = on_late
        if self._timer is None or self._timer.when() > self._at:
            self._set()

    def drop(self) -> None:
        """Nothing is expected any more."""
        self._at = inf

    def close(self) -> None:
        """Nothing will ever be expected again."""
        self._at = inf
        self._on_late = _nothing
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._loop.time() >= self._at:
            self._at = inf
            self._on_late()
        elif self._at != inf:
            self._set()


def _nothing() -> None:
    """Nothing is late."""
