"""Finds time zones by name (local, UTC, IANA), and suggests names for a mistyped one.

The data is the system's, or that of the `tzdata` package if the system has none.
"""

from __future__ import annotations

import difflib
import functools
import os
import zoneinfo
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path

_LINK = Path("/etc/localtime")
_MAX_SUGGESTIONS = 3


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone and its display name."""

    name: str
    rules: tzinfo


UTC = Zone("UTC", timezone.utc)  # noqa: UP017 - `datetime.UTC` would clash with this name


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
