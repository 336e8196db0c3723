"""Computes the share of a processor that each server uses, from two samples of its processor time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from manager.status_reading.responses import objects

LEAST_S: Final = 5.0
"""Seconds between two looks that are compared: time enough for a share that does not jump."""
MOST_S: Final = 60.0
"""After so many seconds without a look, a share would say little about now."""


class _Look(NamedTuple):
    """The processor time of a process at a moment, in seconds, and the percentage that was found then."""

    pid: object
    used_s: float
    at: float
    percent: int | None


class ProcessorUse:
    """The percentages of a processor that servers use. Keeps one look at each server that is there."""

    def __init__(self) -> None:
        self._looks: dict[str, _Look] = {}

    def percents(self, status: Mapping[str, Any], now: float) -> dict[str, int]:
        """For each workspace with a server, whole percents of one processor; without those not known yet.

        Args:
            status: what `/mcp/status` shows.
            now: monotonic seconds.
        """
        there = {}
        for instance in objects(status, "instanceDetails"):
            used = instance.get("cpuSec")
            if isinstance(used, int | float):
                name = str(instance.get("workspace"))
                there[name] = _next(self._looks.get(name), instance.get("pid"), float(used), now)
        self._looks = there
        return {name: look.percent for name, look in there.items() if look.percent is not None}


def _next(before: _Look | None, pid: object, used_s: float, now: float) -> _Look:
    if before is None or before.pid != pid or now - before.at > MOST_S:
        return _Look(pid, used_s, now, None)
    if now - before.at < LEAST_S:
        return before
    return _Look(pid, used_s, now, max(0, round(100 * (used_s - before.used_s) / (now - before.at))))
