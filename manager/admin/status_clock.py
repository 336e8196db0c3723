"""Converts the monotonic times of status to ages and to times of day."""

from __future__ import annotations

import datetime
from typing import Any


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
        wall = self._wall - (self._now - moment)
        local = datetime.datetime.fromtimestamp(wall).astimezone()
        iso = local.astimezone(datetime.UTC).isoformat(timespec="milliseconds")
        return {
            name: int(wall * 1000),
            f"{name}Iso": iso,
            f"{name}Local": local.strftime("%Y-%m-%d %H:%M:%S"),
        }
