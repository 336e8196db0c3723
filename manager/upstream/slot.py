"""A call's place among those in flight, and what the figures say of its end."""

from __future__ import annotations

from manager.log import logger
from manager.upstream.instance import Figures
from protocol.errors import Refusal


class Slot:
    """One call's place among those in flight, or a stream's among those that stand, given back once."""

    def __init__(
        self, figures: Figures, everywhere: Figures, *, is_stream: bool, is_counted: bool = False
    ) -> None:
        self._here = figures
        self._everywhere = everywhere
        self._is_stream = is_stream
        self._is_held = True
        if not is_counted:
            self._count(1)

    def release(self, outcome: str) -> None:
        """Give it back. Idempotent; the first outcome counts."""
        if self._is_held:
            self._is_held = False
            self._count(-1)
            self._here.last_outcome = self._everywhere.last_outcome = outcome

    def _count(self, step: int) -> None:
        if self._is_stream:
            self._here.streams += step
            self._everywhere.streams += step
        else:
            self._here.in_flight += step
            self._everywhere.in_flight += step

    def fail(self, refusal: Refusal) -> None:
        """Give it back and enter the failure into the figures and the log."""
        for one in (self._here, self._everywhere):
            one.errors += 1
            one.last_error = refusal.message
        self.release(refusal.reason.word)
        logger().warning("tools.call", outcome=refusal.reason.word, message=refusal.message)
