"""Reads times as people write them: lengths such as 30m or 2h, and dates. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_LENGTH: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([smhd]?)")


def seconds_of(text: str) -> float | None:
    """The seconds in a text such as `90`, `30s`, `5m`, `2h` or `3d`; None if it is something else."""
    match = _LENGTH.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNITS[match[2]]


def moment_of(text: str, now_s: float) -> int | None:
    """A moment as ms since 1970: a length of time before now, or a date with or without a time.

    Args:
        now_s: seconds since 1970.

    Returns:
        None if the text is neither.
    """
    seconds = seconds_of(text)
    if seconds is not None:
        return round((now_s - seconds) * 1000)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None
