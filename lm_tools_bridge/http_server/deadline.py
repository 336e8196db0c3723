"""One deadline for each connection, and one timer for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final

GRAIN_S: Final = 0.1
"""Seconds between two runs of the timer: a deadline may be met so much later."""


class Deadlines:
    """The deadlines of many connections, and their timer.

    A timer that fires too early is not replaced; it looks for the next deadline when it fires. So calls in
    quick succession need no new timers, and ten thousand idle connections need one.

    Attributes:
        now: the monotonic time.
        soonest: when the timer fires.
    """

    __slots__ = ("_fired_at", "_loop", "_open", "_timer", "now", "soonest")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now = loop.time  # monotonic
        self._open: set[Deadline] = set()
        self._fired_at = -inf
        self._timer: asyncio.TimerHandle | None = None
        self.soonest = inf

    def add(self, deadline: Deadline) -> None:
        """Add a deadline."""
        self._open.add(deadline)

    def discard(self, deadline: Deadline) -> None:
        """Remove a deadline. Idempotent."""
        self._open.discard(deadline)

    def fire_at(self, at: float) -> None:
        """Let the timer fire at this monotonic time, which is sooner than before."""
        if self._timer is not None:
            self._timer.cancel()
        self.soonest = max(at, self._fired_at + GRAIN_S)
        self._timer = self._loop.call_at(self.soonest, self._fire)

    def _fire(self) -> None:
        self._timer, self.soonest = None, inf
        now = self._fired_at = self.now()
        try:
            for deadline in [deadline for deadline in self._open if deadline.at <= now]:
                deadline.expire(now)
        finally:
            following = min((deadline.at for deadline in self._open), default=inf)
            if following < self.soonest:
                self.fire_at(following)


class Deadline:
    """Calls a function after a time, unless it is set anew or cleared before.

    Attributes:
        at: when, in monotonic time; infinite while it is not set.
    """

    __slots__ = ("_deadlines", "_on_timeout", "at")

    def __init__(self, deadlines: Deadlines) -> None:
        self.at = inf
        self._deadlines = deadlines
        self._on_timeout: Callable[[], None] = _nothing
        deadlines.add(self)

    def set(self, seconds: float, on_timeout: Callable[[], None]) -> None:
        """Call `on_timeout` after so many seconds, instead of what was set before."""
        at = self._deadlines.now() + seconds
        self.at = at
        self._on_timeout = on_timeout
        if at < self._deadlines.soonest:
            self._deadlines.fire_at(at)

    def set_at(self, at: float, on_timeout: Callable[[], None]) -> None:
        """Call `on_timeout` at that monotonic time, instead of what was set before."""
        self.at = at
        self._on_timeout = on_timeout
        if at < self._deadlines.soonest:
            self._deadlines.fire_at(at)

    def clear(self) -> None:
        """Call nothing."""
        self.at = inf
        self._on_timeout = _nothing

    def close(self) -> None:
        """Call nothing, and leave the timer for good."""
        self.clear()
        self._deadlines.discard(self)

    def expire(self, now: float) -> None:
        """Call the function if the time has come; called by the timer."""
        if self.at <= now:
            on_timeout = self._on_timeout
            self.clear()
            on_timeout()


def _nothing() -> None:
    """Do nothing: the deadline is not set."""
