"""A call's place among those in flight, and what the figures say of its end."""

from __future__ import annotations

from manager.log import logger
from manager.upstream.instance import Figures
from protocol.errors import Refusal


class Slot:
    """One call's place among those in flight, or a stream's among those that stand, given back once."""

    def __init__(self, figures: Figures, everywhere: Figures, *, is_stream: bool) -> None:
        self._counted_in = (figures, everywhere)
        self._is_stream = is_stream
        self._is_held = True
        self._count(1)

    def release(self, outcome: str) -> None:
        """Give it back. Idempotent; the first outcome counts."""
        if self._is_held:
            self._is_held = False
            self._count(-1)
            for one in self._counted_in:
                one.last_outcome = outcome

    def _count(self, step: int) -> None:
        for one in self._counted_in:
            if self._is_stream:
                one.streams += step
            else:
                one.in_flight += step

    def fail(self, refusal: Refusal) -> None:
        """Give it back and enter the failure into the figures and the log."""
        for one in self._counted_in:
            one.errors += 1
            one.last_error = refusal.message
        self.release(refusal.reason.word)
        logger().warning("tools.call", outcome=refusal.reason.word, message=refusal.message)
