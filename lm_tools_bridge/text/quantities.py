"""Writes durations, latencies and sizes for people, and reads lengths of time and dates from them. Pure."""

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


def duration(seconds: object) -> str | None:
    """`42 s`, `3 min`, `2 h 5 min`, `4 d 1 h`; None if the value is no number."""
    if not isinstance(seconds, int | float):
        return None
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def latency(milliseconds: object) -> str | None:
    """`0.04 ms`, `12 ms`, `2.5 s`; None if the value is no number."""
    if not isinstance(milliseconds, int | float):
        return None
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds:.{2 if milliseconds < 1 else 1 if milliseconds < 10 else 0}f} ms"


def size(count: object) -> str | None:
    """Bytes as `12 MB`; None if the value is no number."""
    if not isinstance(count, int | float):
        return None
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
