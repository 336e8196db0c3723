"""Counts the failures of a remote server and computes when to try again. Pure.

After a failure the pause is 0.5 s, doubled each time, ±25 %. From the fifth failure in a row the breaker is
open: one try after 30 s, 60 s, … up to 5 min. A pause that the server requested (`Retry-After`) always
counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from lm_tools_bridge.backoff import backoff

OPEN_AFTER: Final = 5
OPEN_S: Final = 30.0
LONGEST_S: Final = 300.0
THROTTLED_S: Final = 5.0
"""Pause in seconds after HTTP 429 without `Retry-After`."""
LONGEST_RETRY_S: Final = 3_600.0
_SECONDS: Final = re.compile(r"[0-9]{1,9}\Z")


@dataclass(slots=True)
class Breaker:
    """The failures of one server. Times are monotonic seconds.

    Attributes:
        failures: how many came in a row.
        until: nothing is tried before this time, except on request while the breaker is closed.
        held_until: nothing is sent at all before this time.
    """

    failures: int = 0
    until: float = 0.0
    held_until: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the server failed so often that calls no longer try it."""
        return self.failures >= OPEN_AFTER

    def failed(self, now: float, chance: float) -> float:
        """Note a failure; returns how long to wait. `chance` is in [0, 1)."""
        self.failures += 1
        if self.is_open:
            wait = min(OPEN_S * (self.failures - OPEN_AFTER + 1), LONGEST_S)
        else:
            wait = backoff(self.failures, chance)
        self.until = now + wait
        return self.wait(now)

    def succeeded(self) -> None:
        """Note a success."""
        self.failures = 0
        self.until = 0.0

    def hold(self, now: float, seconds: float | None) -> None:
        """Note that the server requested a pause; None for one of unknown length."""
        wait = THROTTLED_S if seconds is None else min(seconds, LONGEST_RETRY_S)
        self.held_until = max(self.held_until, now + wait)

    def wait(self, now: float) -> float:
        """Seconds until the next try."""
        return max(self.until, self.held_until, now) - now

    def held(self, now: float) -> float:
        """Seconds left of a pause that the server requested; 0 for none."""
        return max(self.held_until - now, 0.0)


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds a `Retry-After` header asks for; None when there is none or it cannot be read.

    Args:
        value: a number of seconds or an HTTP date (RFC 9110, 10.2.3).
        now: what a date is compared with.
    """
    if value is None:
        return None
    if _SECONDS.match(value.strip()):
        return float(value)
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  costs more than everything else in here

    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now.timestamp(), 0.0)
