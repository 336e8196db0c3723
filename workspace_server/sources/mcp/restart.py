"""When a server that ended is started again. Pure: clock and chance are arguments.

A twin of the rules by which the manager restarts workspace servers, with their own numbers.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from host.backoff import FIRST_S, backoff

LOOP_ENDS: Final = 5
LOOP_WITHIN_S: Final = 60.0
LOOP_WAIT_S: Final = 60.0
"""In a crash loop it is tried once in this time."""
SETTLED_S: Final = 60.0
"""A server that lived so long starts with a clean record."""


@dataclass(slots=True)
class Restarts:
    """The record of one server. Times are monotonic seconds.

    Attributes:
        looping: it ended five times within a minute and has not lived for a minute since.
        not_before: when it may be started again; infinite where only a person can help.
        error: why it ended last.
    """

    looping: bool = False
    not_before: float = 0.0
    error: str | None = None
    _ends: deque[float] = field(default_factory=lambda: deque(maxlen=LOOP_ENDS))
    _count: int = 0

    def ended(self, now: float, lived_s: float, chance: float) -> float:
        """It ended, or did not come up. Returns in how many seconds it may be started again (`not_before`).

        Args:
            now: the time.
            lived_s: how long it had been ready, 0 for never.
            chance: a random number in [0, 1).
        """
        if lived_s >= SETTLED_S:
            self._ends.clear()
            self._count, self.looping = 0, False
        self._ends.append(now)
        if len(self._ends) == LOOP_ENDS and now - self._ends[0] <= LOOP_WITHIN_S:
            self.looping = True
        self._count += 1
        pause = LOOP_WAIT_S if self.looping else backoff(self._count, chance, first_s=FIRST_S)
        self.not_before = now + pause
        return pause

    def failed(self) -> None:
        """It cannot be started, and trying again by itself would not help."""
        self.not_before = math.inf

    def forgive(self) -> None:
        """A person wants it tried now."""
        self.not_before = 0.0
