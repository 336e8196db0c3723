"""A token bucket: how often something may happen, for any length of time and at once. Pure."""

from __future__ import annotations


class TokenBucket:
    """So many tokens, which come back at a rate; it begins full.

    Args:
        rate: tokens a second.
        most: tokens that it holds.
        now: monotonic seconds.
    """

    __slots__ = ("_at", "_left", "_most", "_rate")

    def __init__(self, rate: float, most: float, now: float) -> None:
        self._rate = rate
        self._most = self._left = most
        self._at = now

    def left(self, now: float) -> float:
        """How many tokens there are now. A clock that goes back brings none."""
        self._left = min(self._most, self._left + max(0.0, now - self._at) * self._rate)
        self._at = max(self._at, now)
        return self._left

    def spend(self, count: float = 1.0) -> None:
        """Use some; more than there are counts as all."""
        self._left = max(0.0, self._left - count)

    def take(self, now: float) -> bool:
        """Use one, if one is left."""
        if self.left(now) < 1:
            return False
        self.spend()
        return True

    def wait_s(self, now: float) -> float:
        """Seconds until one is left; 0.0 if one is."""
        return max(0.0, (1.0 - self.left(now)) / self._rate)
