"""Reads the time limits of an entry under the names that clients give them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from workspace_server.config.formats.fields import ConfigValueError, Fields

START: Final = "start_timeout_s"
_UNITS: Final = r"(ms|millis|milliseconds|s|sec|secs|seconds)?"
_START: Final = re.compile(
    r"(?:start|startup|init|initialize|initialization|connect|connection)timeout" + _UNITS
)
_CALL: Final = re.compile(r"(?:tool|toolcall|call|request|execution)timeout" + _UNITS)
_USUAL_MS: Final = 30_000.0
"""The usual limit of a start that shows no life (`Timeouts.start_s`)."""
_LEAST_MS: Final = 1000.0
"""Without a unit, less than this is taken for seconds: nobody means a second or less."""


def start_limit_s(fields: Fields, written: Mapping[str, Any], longest_s: float) -> float | None:
    """The longest duration of a start; None if the entry does not say.

    Clients that have one `timeout` for everything apply it to the start as well, so that a long one allows a
    long start; a short one is a limit of calls.

    Args:
        fields: the entry with our keys.
        written: the entry as written.
        longest_s: the longest duration that can be set.
    """
    if fields.has(START):
        return fields.number(START, 0.0, 1.0, longest_s)
    fields.take(START)
    named = _limit_s(fields, _START, longest_s)
    if named is not None:
        return named
    both = written.get("timeout")
    if "timeout" in fields.left or isinstance(both, bool) or not isinstance(both, int | float):
        return None
    return min(both / 1000, longest_s) if both > _USUAL_MS else None


def call_limit_s(fields: Fields, longest_s: float) -> float | None:
    """The longest duration of a call by a client's name for it; None if the entry has no such key."""
    return _limit_s(fields, _CALL, longest_s)


def _limit_s(fields: Fields, names: re.Pattern[str], longest_s: float) -> float | None:
    limit_s = None
    for key in fields.left:
        match = names.fullmatch(re.sub("[_-]", "", key).lower())
        if match is None:
            continue
        value = fields.take(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ConfigValueError(f'"{key}" must be a positive number')
        is_ms = match[1].startswith("m") if match[1] else value >= _LEAST_MS
        limit_s = min(max(value / 1000 if is_ms else value, 1.0), longest_s)
    return limit_s
