"""Reads the length of time that an option is given."""

from __future__ import annotations

from typing import Any, Final

import click

from lm_tools_bridge.text.moments import seconds_of

_LONGEST_S: Final = 36_500 * 86_400.0
"""A hundred years: whoever writes more has mistyped."""


class Length(click.ParamType[float]):
    """A length of time in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds of a text."""
        seconds = value if isinstance(value, float) else seconds_of(str(value))
        if seconds is None or not 0 < seconds <= _LONGEST_S:
            self.fail(f"{value!r} is no length of time, such as 30s, 5m, 2h or 3d", param, ctx)
        return seconds
