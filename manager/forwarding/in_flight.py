"""A call's place among those in flight, and what the figures say of its end and of the time it took."""

from __future__ import annotations

import time
from enum import Enum, auto

from manager.log import logger
from manager.supervision.instance import Figures
from protocol.errors import Refusal


class Wait(Enum):
    """What a call may have to wait for before it is sent."""

    START = auto()
    CONNECTION = auto()


class Total:
    """How many calls are in flight, of all workspaces together."""

    __slots__ = ("in_flight",)

    def __init__(self) -> None:
        self.in_flight = 0


class Slot:
    """One call's place among those in flight, or a stream's among those that stand, given back once.

    `begun` is when the work for the call began, None where its time does not count. `sent` is set when it
    goes out. Both are monotonic. `identity` is the id that the response must have, as JSON text.
    """

    __slots__ = ("_begun", "_has_failed", "_here", "_is_held", "_is_stream", "_total", "identity", "sent")

    def __init__(
        self,
        figures: Figures,
        total: Total,
        *,
        identity: bytes,
        is_stream: bool,
        begun: float | None = None,
        is_counted: bool = False,
    ) -> None:
        self._here = figures
        self._total = total
        self._is_stream = is_stream
        self._is_held = True
        self._has_failed = False
        self.identity = identity
        self._begun = begun
        self.sent: float | None = None
        if not is_counted:
            self._count(1)

    def waited(self, wait: Wait, seconds: float) -> None:
        """It had to wait before it could be sent: that is nobody's work."""
        timings = self._here.timings
        if self._begun is not None:
            self._begun += seconds
            (timings.start if wait is Wait.START else timings.connection).add(seconds)

    def release(self, outcome: str, came: float | None = None) -> None:
        """Give it back. Idempotent; the first outcome counts.

        Args:
            came: when the answer was there, if that was before now.
        """
        if self._is_held:
            self._is_held = False
            self._count(-1)
            self._here.last_outcome = outcome
            if self._begun is not None and self.sent is not None:
                now = time.monotonic()
                self._here.timings.record_call(self._begun, self.sent, now if came is None else came, now)

    def _count(self, step: int) -> None:
        if self._is_stream:
            self._here.streams += step
        else:
            self._here.in_flight += step
            self._total.in_flight += step

    def fail(self, refusal: Refusal) -> None:
        """Give it back and enter the failure into the figures and the log; the first failure counts."""
        if self._has_failed:
            return
        self._has_failed = True
        self._here.failed(refusal)
        self.release(refusal.reason.word)
        logger().warning("tools.call", outcome=refusal.reason.word, message=refusal.message)
