"""The one deadline of each connection, whatever it is waiting for now, and the one timer of them all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final

GRAIN_S: Final = 0.1
"""Deadlines closer to each other than this may be met together, so much later."""


class Deadlines:
    """The deadlines of many connections.

    A timer that would ring too early is left as it is, and looks for what is next when it rings. So calls in
    quick succession need no timers, and ten thousand idle connections need one.
    """

    __slots__ = ("_loop", "_open", "_rang", "_timer", "now", "soonest")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now = loop.time  # monotonic
        self._open: set[Deadline] = set()
        self._rang = -inf
        self._timer: asyncio.TimerHandle | None = None
        self.soonest = inf  # when the timer rings

    def keep(self, one: Deadline) -> None:
        """Look after a deadline."""
        self._open.add(one)

    def let_go(self, one: Deadline) -> None:
        """It will never be met. Idempotent."""
        self._open.discard(one)

    def ring_at(self, at: float) -> None:
        """One of them is sooner than any other."""
        if self._timer is not None:
            self._timer.cancel()
        self.soonest = max(at, self._rang + GRAIN_S)
        self._timer = self._loop.call_at(self.soonest, self._ring)

    def _ring(self) -> None:
        self._timer, self.soonest = None, inf
        now = self._rang = self.now()
        try:
            for one in [one for one in self._open if one.at <= now]:
                one.meet(now)
        finally:
            following = min((one.at for one in self._open), default=inf)
            if following < self.soonest:
                self.ring_at(following)


class Deadline:
    """Calls something after a time, unless something else comes to be expected.

    Attributes:
        at: when, in monotonic time; never where nothing is expected.
    """

    __slots__ = ("_all", "_on_late", "at")

    def __init__(self, all_of_them: Deadlines) -> None:
        self.at = inf
        self._all = all_of_them
        self._on_late: Callable[[], None] = _nothing
        all_of_them.keep(self)

    def set(self, seconds: float, on_late: Callable[[], None]) -> None:
        """From now on so long, then call this."""
        at = self._all.now() + seconds
        self.at = at
        self._on_late = on_late
        if at < self._all.soonest:
            self._all.ring_at(at)

    def set_at(self, at: float, on_late: Callable[[], None]) -> None:
        """From now on until that monotonic time, then call this."""
        self.at = at
        self._on_late = on_late
        if at < self._all.soonest:
            self._all.ring_at(at)

    def clear(self) -> None:
        """Nothing is expected any more."""
        self.at = inf
        self._on_late = _nothing

    def close(self) -> None:
        """Nothing will ever be expected again."""
        self.clear()
        self._all.let_go(self)

    def meet(self, now: float) -> None:
        """For the timer: it may be late."""
        if self.at <= now:
            on_late = self._on_late
            self.clear()
            on_late()


def _nothing() -> None:
    """Nothing is late."""
