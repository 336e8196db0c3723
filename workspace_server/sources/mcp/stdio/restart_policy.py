"""Decides when a stdio server that ended is started again. Pure: time and chance are arguments.

The manager restarts workspace servers by similar rules with their own numbers.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from lm_tools_bridge.backoff import FIRST_S, backoff
from workspace_server.source import SourceState
from workspace_server.sources.mcp.failures import SessionFailed, Unavailable
from workspace_server.sources.mcp.retry_policy import CallVerdict, Retry

# A server that ends so often so soon fails for a reason that another start does not remove.
LOOP_ENDS: Final = 5
LOOP_WITHIN_S: Final = 60.0
LOOP_WAIT_S: Final = 60.0
"""The pause between two tries in a crash loop."""
SLOW_START_S: Final = 10.0
"""A start that fails after this time failed slowly."""
SLOW_WAIT_S: Final = 600.0
"""The longest pause after a slow failure. A person who corrected the cause need not wait for its end."""
SETTLED_S: Final = 60.0
"""A server that lived this long starts with a clean record."""


@dataclass(slots=True)
class RestartPolicy:
    """The restarts of one server: a `RetryPolicy`. Times are monotonic seconds.

    Attributes:
        looping: the server ended five times within a minute and has not lived for a minute since.
        not_before: when the server may be started again; infinite where only a person can help.
        error: why the server ended last, in any of its processes.
    """

    initial_state: SourceState = "idle"
    opening_state: SourceState | None = "starting"
    looping: bool = False
    not_before: float = 0.0
    error: str | None = None
    _ends: deque[float] = field(default_factory=lambda: deque(maxlen=LOOP_ENDS))
    _count: int = 0

    def refusal(self, now: float) -> None:
        """Calls over a running process are always let through."""

    def may_open(self, now: float) -> bool:
        """Whether the pause after the last end is over."""
        return now >= self.not_before

    def opened(self) -> None:
        """The record stays until the server has lived for a minute."""

    def failed(self, failure: Unavailable, now: float, lived_s: float, chance: float) -> Retry:
        """As `RetryPolicy.failed`; a final failure waits for a person."""
        self.error = failure.text
        if isinstance(failure, SessionFailed) and failure.final:
            self.not_before = math.inf
            return Retry("failed", None)
        took_s = failure.took_s if isinstance(failure, SessionFailed) else 0.0
        pause = self.ended(now, lived_s, chance, took_s)
        return Retry("crash_looping" if self.looping else "backoff", pause)

    def ended(self, now: float, lived_s: float, chance: float, took_s: float = 0.0) -> float:
        """Note an end. Returns the seconds until the next start (see `not_before`).

        After a start that failed slowly the pause is as long as the start was, doubled with each failure: a
        server that never answers would else be starting nearly all the time.
        """
        if lived_s >= SETTLED_S:
            self._ends.clear()
            self._count, self.looping = 0, False
        self._ends.append(now)
        if len(self._ends) == LOOP_ENDS and now - self._ends[0] <= LOOP_WITHIN_S:
            self.looping = True
        self._count += 1
        if self.looping:
            pause = LOOP_WAIT_S
        elif took_s >= SLOW_START_S:
            pause = backoff(self._count, chance, first_s=took_s, longest_s=SLOW_WAIT_S)
        else:
            pause = backoff(self._count, chance, first_s=FIRST_S)
        self.not_before = now + pause
        return pause

    def call_succeeded(self) -> None:
        """Only ends of the process count."""

    def call_failed(
        self, failure: Unavailable, now: float, chance: float, *, is_current: bool
    ) -> CallVerdict:
        """Only ends of the process count."""
        return "keep"

    def unavailable(self, error: str | None, now: float) -> Unavailable:
        """The last error, and when the next start is due."""
        wait = self.not_before - now
        again = round(wait * 1000) if 0 < wait < math.inf else None
        return Unavailable(error or self.error or "it ended", retry_after_ms=again)

    def forgive(self) -> None:
        """Allow a start now, because a person wants one."""
        self.not_before = 0.0
