"""Decides what Ctrl-C does: once it cancels the turn, twice within 2 s the agent leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

TWICE_S: Final = 2.0
HINT: Final = "press Ctrl-C again to leave"


class Cancellable(Protocol):
    """A task."""

    def cancel(self) -> Any:
        """Cancel it."""

    def done(self) -> bool:
        """Whether it has ended."""


class Interrupts:
    """Counts Ctrl-C, from a signal as well as from a key.

    Attributes:
        leaving: whether the agent is to leave.
        turn: what runs now, and is cancelled; None between turns.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.leaving = False
        self.turn: Cancellable | None = None
        self._clock = clock
        self._last: float | None = None

    def press(self) -> bool:
        """Ctrl-C was pressed; True if the agent is to leave now."""
        now = self._clock()
        self.leaving = self._last is not None and now - self._last <= TWICE_S
        self._last = now
        if self.turn is not None and not self.turn.done():
            self.turn.cancel()
        return self.leaving
