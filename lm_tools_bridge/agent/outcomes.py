"""Defines how a turn ends: one of five outcomes, with what it took."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Ending(StrEnum):
    """Why a turn ended."""

    COMPLETED = "completed"
    """The model replied without calls."""
    LIMIT_REACHED = "limit_reached"
    """The model asked for calls in every round that it may have."""
    CANCELLED = "cancelled"
    """The person cancelled it."""
    REPEATED_CALLS = "repeated_calls"
    """The model repeated calls that it had the results of."""
    PROVIDER_FAILED = "provider_failed"
    """The provider gave no whole reply."""


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """How a turn ended. `detail` says why in words for a person, empty where it was completed."""

    ending: Ending
    rounds: int
    calls: int
    seconds: float
    detail: str = ""
