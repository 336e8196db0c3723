"""Converts the monotonic times of status to ages and to times of day."""

from __future__ import annotations

import datetime
import time
from functools import lru_cache
from typing import Any, Final

_CACHED: Final = 1024
"""Seconds whose texts are kept: the times of many servers lie in few of them."""


class Clock:
    """Both clocks at the moment of one status: monotonic seconds, and seconds since 1970."""

    def __init__(self, now: float, wall: float) -> None:
        self._now = now
        self._wall = wall

    def age(self, moment: float | None) -> int | None:
        """Seconds since a moment."""
        return None if moment is None else int(self._now - moment)

    def stamps(self, name: str, moment: float | None) -> dict[str, Any]:
        """`name` in ms, `nameIso` and `nameLocal` as texts."""
        if moment is None:
            return {name: None, f"{name}Iso": None, f"{name}Local": None}
        milliseconds = int((self._wall - (self._now - moment)) * 1000)
        second, rest = divmod(milliseconds, 1000)
        iso, local = _texts(second)
        return {name: milliseconds, f"{name}Iso": f"{iso}.{rest:03}+00:00", f"{name}Local": local}


@lru_cache(_CACHED)
def _texts(second: int) -> tuple[str, str]:
    """A second in UTC and in local time."""
    universal = datetime.datetime.fromtimestamp(second, datetime.UTC)
    return f"{universal:%Y-%m-%dT%H:%M:%S}", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
