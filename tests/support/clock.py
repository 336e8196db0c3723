"""Clocks that a test sets: one that stands still, and the time of the process, which can be put forward."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest


@dataclass
class ManualClock:
    """Monotonic seconds: `now` until a test changes it."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


class AdvancedTime:
    """`time.monotonic`, and with it the time of asyncio's event loop, as it runs or put forward.

    What has bound the function before (`from time import monotonic`) does not notice.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._real = time.monotonic
        self._ahead = 0.0
        patch.setattr(time, "monotonic", self)

    def __call__(self) -> float:
        return self._real() + self._ahead

    def advance(self, seconds: float) -> None:
        """Let this time pass at once; timers fire in the next turn of the event loop."""
        self._ahead += seconds
