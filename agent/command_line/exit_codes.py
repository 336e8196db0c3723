"""Defines the exit codes of one turn, for scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agent.outcomes import Ending

CANCELLED: Final = 130
TERMINATED: Final = 143
"""A session was ended by SIGTERM, or its terminal is gone."""
CODES: Final[Mapping[Ending, int]] = {
    Ending.COMPLETED: 0,
    Ending.LIMIT_REACHED: 3,
    Ending.REPEATED_CALLS: 3,
    Ending.PROVIDER_FAILED: 4,
    Ending.CANCELLED: CANCELLED,
}
