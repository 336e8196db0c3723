"""Defines the exit codes of a session; those of one turn are in `one_turn.py`."""

from __future__ import annotations

from typing import Final

CANCELLED: Final = 130
TERMINATED: Final = 143
"""A session was ended by SIGTERM, or its terminal is gone."""
