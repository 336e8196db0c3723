"""Parses and formats ISO 8601 durations such as `P1Y2M`, `-PT36H` and `P1DT30.5S`.

Calendar parts (years to days) and clock parts (hours to seconds) stay separate, because a day is not always
24 hours long. `datetime.timedelta` cannot tell them apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

_DIGITS = r"(\d{1,9})"
_DURATION = re.compile(
    rf"([+-]?)P(?=[\dT])(?:{_DIGITS}Y)?(?:{_DIGITS}M)?(?:{_DIGITS}W)?(?:{_DIGITS}D)?"
    r"(?:T(?=\d)(?:(\d{1,9}(?:[.,]\d{1,9})?)H)?(?:(\d{1,9}(?:[.,]\d{1,9})?)M)?(?:(\d{1,9}(?:[.,]\d{1,9})?)S)?)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Duration:
    """`months` and `days` move the calendar and keep the time of day; `clock` is absolute time."""

    months: int
    days: int
    clock: timedelta


def parse_duration(text: str) -> Duration | None:
    """Parse a duration; None if `text` is invalid. A leading minus negates all parts."""
    match = _DURATION.fullmatch(text.strip().upper())
    if match is None:
        return None
    sign = -1 if match[1] == "-" else 1
    years, months, weeks, days = (int(part or 0) for part in match.group(2, 3, 4, 5))
    hours, minutes, seconds = (float((part or "0").replace(",", ".")) for part in match.group(6, 7, 8))
    clock = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return Duration(sign * (12 * years + months), sign * (7 * weeks + days), sign * clock)


def format_duration(span: timedelta) -> str:
    """Format `span` in hours, minutes and seconds. Days are not used, as not every day has 24 hours."""
    microseconds = abs(span) // timedelta(microseconds=1)
    minutes, rest = divmod(microseconds, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{rest // 1_000_000}.{rest % 1_000_000:06d}".rstrip("0").rstrip(".")
    parts = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else "", f"{seconds}S" if rest else ""]
    return f"{'-' if span < timedelta(0) else ''}PT{''.join(parts) or '0S'}"
