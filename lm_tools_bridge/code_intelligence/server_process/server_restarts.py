"""Decides when a language server that ended may be started again. Pure: time and chance are arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.backoff import backoff

SETTLED_S: Final = 60.0
"""A server that lived this long starts with a clean record."""
LOOP_ENDS: Final = 5
LOOP_WAIT_S: Final = 60.0
"""The pause after each of more than five ends in a row."""


@dataclass(slots=True)
class ServerRestarts:
    """The ends of one server. Times are monotonic seconds.

    Attributes:
        ends: how often it ended in a row without having lived for a minute.
        not_before: when it may be started again.
    """

    ends: int = 0
    not_before: float = 0.0

    @property
    def looping(self) -> bool:
        """Whether it ended so often that trying again helps little."""
        return self.ends >= LOOP_ENDS

    def ended(self, now: float, lived_s: float, chance: float) -> None:
        """Note an end, or a start that failed (`lived_s` is 0 then)."""
        if lived_s >= SETTLED_S:
            self.ends = 0
        self.ends += 1
        self.not_before = now + (LOOP_WAIT_S if self.looping else backoff(self.ends, chance))

    def pause(self, now: float) -> float:
        """Seconds until it may be started; 0 if at once."""
        return max(0.0, self.not_before - now)
