"""The tool `datetime`: now, parse, add, diff and convert, always with an explicit time zone.

The clock and the local zone are arguments, so results do not depend on the machine. The data of time zones is
the system's, or that of the `tzdata` package if the system has none.
"""

from __future__ import annotations

import asyncio
import calendar
import difflib
import functools
import os
import re
import time
import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any

from workspace_server.tool import Tool, ToolError, ToolResult

_LINK = Path("/etc/localtime")
_MAX_SUGGESTIONS = 3
"""Names in an error: a model takes one of the first."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone and its display name."""

    name: str
    rules: tzinfo


UTC_ZONE = Zone("UTC", UTC)


def find_zone(name: str) -> Zone | None:
    """The IANA zone called `name`, or None if there is none."""
    try:
        return Zone(name, zoneinfo.ZoneInfo(name))
    except (KeyError, ValueError, OSError):  # an unknown zone; an invalid name; a directory of zones
        return None


def local_zone() -> Zone:
    """The zone of this machine: `$TZ`, else the target of /etc/localtime, else the current fixed offset."""
    name = os.environ.get("TZ", "").removeprefix(":")
    if not name:
        _, inside, name = str(_LINK.resolve()).rpartition("zoneinfo/")
        name = name if inside else ""
    if name and (zone := find_zone(name)) is not None:
        return zone
    offset = datetime.now().astimezone().utcoffset() or timedelta(0)
    fixed = timezone(offset)
    return Zone(fixed.tzname(None), fixed)


@functools.cache
def _all_names() -> dict[str, str]:
    """Maps the name and its last part, both in lower case, to the name of every zone."""
    names = sorted(zoneinfo.available_timezones())
    last_parts = {name.rpartition("/")[2].lower(): name for name in reversed(names)}
    return last_parts | {name.lower(): name for name in names}


def suggestions(name: str) -> list[str]:
    """At most three existing names that are similar to `name`, best match first."""
    zone_names = _all_names()
    spelling = name.strip().lower().replace(" ", "_")
    close = difflib.get_close_matches(spelling, zone_names, n=2 * _MAX_SUGGESTIONS, cutoff=0.7)
    last = difflib.get_close_matches(spelling.rpartition("/")[2], zone_names, n=_MAX_SUGGESTIONS, cutoff=0.8)
    return list(dict.fromkeys(zone_names[key] for key in [*close, *last]))[:_MAX_SUGGESTIONS]


_MOMENT = "ISO 8601, local without an offset: `2026-03-29T02:30:00Z`; or epoch seconds."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WEEKDAYS = calendar.day_name[:]
_ONE_SECOND = timedelta(seconds=1)
# A number with four digits is more likely a year, one with six to eight a date such as 20260329.
_EPOCH_TEXT = re.compile(r"-?(\d{1,3}|\d{5}|\d{9,12})(\.\d+)?", re.ASCII)

TOOL = Tool(
    name="datetime",
    definition={
        "name": "datetime",
        "title": "Date and time",
        "description": (
            "The date and time now, or calculation with dates and time zones, for agents that cannot run "
            "`date`. `parse` reads `value`; `add`: `value` (default now) plus `duration`, where days and "
            "longer keep the time of day; `diff`: from `value` to `other`; `convert`: `value` in `timezone`. "
            'Example: {"operation": "add", "duration": "P1M"}'
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "operation": {
                    "type": "string",
                    "enum": ["now", "parse", "add", "diff", "convert"],
                    "default": "now",
                },
                "timezone": {
                    "type": "string",
                    "maxLength": 64,
                    "default": "local",
                    "description": "`local`, `UTC` or an IANA name such as `Europe/Berlin`.",
                },
                "value": {"type": ["string", "number"], "maxLength": 64, "description": _MOMENT},
                "other": {
                    "type": ["string", "number"],
                    "maxLength": 64,
                    "description": "For `diff`.",
                },
                "duration": {
                    "type": "string",
                    "maxLength": 64,
                    "description": "ISO 8601, e.g. `PT36H`, `-P2W`.",
                },
            },
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "iso": {"type": "string"},
                "epochSeconds": {"type": "number"},
                "timezone": {"type": "string"},
                "utcOffset": {"type": "string"},
                "weekday": {"type": "string", "enum": _WEEKDAYS},
                "ambiguous": {
                    "const": True,
                    "description": "The clock showed this time twice; the earlier offset was taken.",
                },
                "gap": {
                    "const": True,
                    "description": "The clock skipped this time; it was moved by the length of the gap.",
                },
                "seconds": {"type": "number"},
                "duration": {"type": "string"},
            },
            "oneOf": [
                {"required": ["iso", "epochSeconds", "timezone", "utcOffset", "weekday"]},
                {"required": ["seconds", "duration"]},
            ],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    keywords=("date", "time", "clock", "timezone", "now", "today", "weekday", "epoch"),
)


@dataclass(frozen=True, slots=True)
class _Moment:
    """A time with its offset.

    Attributes:
        at: the time.
        ambiguous: whether the wall clock shows this time twice.
        gap: whether the wall clock skips the requested time.
    """

    at: datetime
    ambiguous: bool = False
    gap: bool = False


def _error(pointer: str, message: str, **more: object) -> ToolError:
    return ToolError(f"Error: {message}", {"pointer": pointer, **more})


def _zone(name: str, local: Callable[[], Zone]) -> Zone:
    if name.lower() == "local":
        return local()
    if name.upper() == "UTC":
        return UTC_ZONE
    zone = find_zone(name)
    if zone is not None:
        return zone
    close = suggestions(name)
    hint = (
        f"did you mean {', '.join(close)}?" if close else "write local, UTC or a name such as Europe/Berlin"
    )
    raise _error("/timezone", f"Unknown timezone '{name}'; {hint}", candidates=close)


def _from_wall_clock(wall: datetime, zone: Zone) -> _Moment:
    """The moment when a clock in `zone` shows `wall`, a time without offset."""
    earlier = wall.replace(tzinfo=zone.rules, fold=0)
    at = earlier.astimezone(UTC).astimezone(zone.rules)
    gap = at.replace(tzinfo=None, fold=0) != wall.replace(fold=0)
    ambiguous = not gap and earlier.utcoffset() != earlier.replace(fold=1).utcoffset()
    return _Moment(at, ambiguous, gap)


def _from_epoch(seconds: float, pointer: str) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except (OverflowError, ValueError) as error:
        hint = "; epoch values are seconds, divide milliseconds by 1000"
        raise _error(pointer, f"{seconds:.15g} is outside the years 1 to 9999{hint}") from error


def _read(arguments: Mapping[str, Any], key: str, zone: Zone) -> _Moment:
    """Read the moment in argument `key`; a time without offset is in `zone`."""
    value = arguments.get(key)
    pointer = f"/{key}"
    if value is None:
        operation = arguments.get("operation")
        raise _error(pointer, f"operation {operation} needs {key}: {_MOMENT}")
    if isinstance(value, str) and not _EPOCH_TEXT.fullmatch(value.strip()):
        return _read_iso(value, pointer, zone)
    return _Moment(_from_epoch(float(value), pointer).astimezone(zone.rules))


def _read_iso(text: str, pointer: str, zone: Zone) -> _Moment:
    try:
        read = datetime.fromisoformat(text.strip())
    except ValueError as error:
        cause = "" if "isoformat" in str(error) else f" ({error})"
        raise _error(pointer, f"Cannot read '{text}' as a date and time{cause}; write {_MOMENT}") from error
    return _from_wall_clock(read, zone) if read.tzinfo is None else _Moment(read.astimezone(zone.rules))


def _add(start: _Moment, text: str | None, zone: Zone) -> _Moment:
    """Add a duration to `start`: first months, then days on the wall clock, then absolute time."""
    duration = None if text is None else parse_duration(text)
    if duration is None:
        problem = "operation add needs duration" if text is None else f"Cannot read duration '{text}'"
        raise _error("/duration", f"{problem}; write ISO 8601 such as P1D, PT36H, P1Y2M, -P2W")
    moment = start
    if duration.months or duration.days:
        wall = start.at.replace(tzinfo=None, fold=0)
        years, month = divmod(wall.year * 12 + wall.month - 1 + duration.months, 12)
        last_day = calendar.monthrange(years, month + 1)[1]
        wall = wall.replace(year=years, month=month + 1, day=min(wall.day, last_day))
        moment = _from_wall_clock(wall + timedelta(days=duration.days), zone)
    at = (moment.at.astimezone(UTC) + duration.clock).astimezone(zone.rules)
    return _Moment(at, start.ambiguous or moment.ambiguous, start.gap or moment.gap)


def _number(span: timedelta) -> float:
    """`span` in seconds, an int if there is no fraction."""
    whole, rest = divmod(span, _ONE_SECOND)
    return whole if not rest else span / _ONE_SECOND


def _answer(moment: _Moment, zone: Zone) -> ToolResult:
    offset = moment.at.strftime("%z")
    iso = moment.at.isoformat()
    weekday = _WEEKDAYS[moment.at.weekday()]
    structured: dict[str, Any] = {
        "iso": iso,
        "epochSeconds": _number(moment.at - _EPOCH),
        "timezone": zone.name,
        "utcOffset": ":".join(filter(None, (offset[:3], offset[3:5], offset[5:]))),
        "weekday": weekday,
    }
    if moment.ambiguous:
        structured["ambiguous"] = True
    if moment.gap:
        structured["gap"] = True
    return ToolResult(f"{iso} {weekday} ({zone.name})", structured)


def _difference(start: _Moment, end: _Moment) -> ToolResult:
    span = end.at.astimezone(UTC) - start.at.astimezone(UTC)
    seconds, duration = _number(span), format_duration(span)
    return ToolResult(f"{seconds} seconds ({duration})", {"seconds": seconds, "duration": duration})


async def call(
    arguments: Mapping[str, Any],
    now: Callable[[], float] = time.time,
    local_zone: Callable[[], Zone] = local_zone,
) -> ToolResult:
    """Run the operation in `arguments["operation"]`.

    Args:
        arguments: the arguments of the tool call.
        now: returns the current time in epoch seconds; the fraction is dropped.
        local_zone: returns the time zone for `local`.

    Raises:
        ToolError: an unknown zone, an invalid or missing argument, or a result outside the years 1 to 9999.
    """
    return await asyncio.to_thread(_call, arguments, now, local_zone)  # reading time zones blocks


def _call(
    arguments: Mapping[str, Any], now: Callable[[], float], local_zone: Callable[[], Zone]
) -> ToolResult:
    zone = _zone(arguments.get("timezone") or "local", local_zone)
    operation = arguments.get("operation") or "now"
    try:
        present = _Moment(_from_epoch(int(now()), "/value").astimezone(zone.rules))
        match operation:
            case "parse":
                return _answer(_read(arguments, "value", zone), zone)
            case "convert":
                read = _read(arguments, "value", local_zone())
                return _answer(_Moment(read.at.astimezone(zone.rules), read.ambiguous, read.gap), zone)
            case "diff":
                return _difference(_read(arguments, "value", zone), _read(arguments, "other", zone))
            case "add":
                start = _read(arguments, "value", zone) if arguments.get("value") is not None else present
                return _answer(_add(start, arguments.get("duration"), zone), zone)
            case _:
                return _answer(present, zone)
    except (OverflowError, ValueError) as error:
        raise _error("/value", "The result is outside the years 1 to 9999; use a smaller step") from error


# Calendar parts (years to days) and clock parts (hours to seconds) stay separate, because a day is not always
# 24 hours long. `datetime.timedelta` cannot tell them apart.

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
