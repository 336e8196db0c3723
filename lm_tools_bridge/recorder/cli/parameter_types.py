"""Reads what options about recorded calls are given: ids, moments, milliseconds."""

from __future__ import annotations

import time
from typing import Any, Final

import click

from lm_tools_bridge.text.moments import moment_of

LARGEST_ID: Final = 2**53
"""Higher than any id that a call can have."""
_MOST_MS: Final = 1e9


class CallNumber(click.ParamType[int]):
    """The id of a recorded call."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of a text."""
        number = int(value) if str(value).isdecimal() and len(str(value)) < 17 else 0
        if not 0 < number < LARGEST_ID:
            self.fail(f"{value!r} is no id of a call: lmtb calls lists them, in its first column", param, ctx)
        return number


class Milliseconds(click.ParamType[float]):
    """A duration in milliseconds."""

    name = "ms"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The milliseconds of a text."""
        try:
            milliseconds = float(value)
        except ValueError:
            milliseconds = -1
        if not 0 <= milliseconds <= _MOST_MS:
            self.fail(f"{value!r} is no number of milliseconds, such as 200", param, ctx)
        return milliseconds


class Moment(click.ParamType[int]):
    """A moment, as ms since 1970: a length of time before now, or a date with or without a time."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The milliseconds of a text."""
        if isinstance(value, int):
            return value
        moment = moment_of(str(value), time.time())
        if moment is None:
            self.fail(
                f"{value!r} is neither a length such as 2h nor a time such as 2026-05-01T14:30", param, ctx
            )
        return moment
