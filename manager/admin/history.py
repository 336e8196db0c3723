"""Keeps calls, errors, durations, memory and loop lag of each ten seconds of the last ten minutes. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from manager.routing.state.timings import percentiles
from manager.supervision.instance import Figures

EVERY_S: Final = 10
"""Seconds that one moment covers."""
MOST_MOMENTS: Final = 60


class Moment(NamedTuple):
    """What happened in ten seconds.

    Attributes:
        calls, errors: how many ended.
        p99_s: 99th percentile of the servers' time for a call, in seconds; None without calls.
        memory: of the manager at the end, in bytes; None if the system does not tell.
        lag_s: the longest delay of the event loop.
    """

    calls: int
    errors: int
    p99_s: float | None
    memory: int | None
    lag_s: float


class _Totals(NamedTuple):
    calls: int
    errors: int
    server: Sequence[int]


class History:
    """The moments of the last ten minutes, the oldest first."""

    def __init__(self) -> None:
        self._moments: deque[Moment] = deque(maxlen=MOST_MOMENTS)
        self._before: _Totals | None = None

    @property
    def moments(self) -> Sequence[Moment]:
        """The moments now."""
        return tuple(self._moments)

    def add(self, figures: Iterable[Figures], memory: int | None, lag_s: float) -> None:
        """Add the moment that ends now.

        Args:
            figures: the counters of all workspaces, which count from the start. Those of a removed workspace
                are missed; a moment never has less than no calls.
        """
        totals, before = _sum(figures), self._before
        self._before = totals
        if before is None:
            before = _Totals(0, 0, [0] * len(totals.server))
        counts = [max(0, now - then) for now, then in zip(totals.server, before.server, strict=False)]
        found = percentiles(counts)
        self._moments.append(
            Moment(
                max(0, totals.calls - before.calls),
                max(0, totals.errors - before.errors),
                None if found is None else found.p99,
                memory,
                lag_s,
            )
        )


def _sum(figures: Iterable[Figures]) -> _Totals:
    listed = list(figures)
    server = [sum(column) for column in zip(*(one.timings.server.counts for one in listed), strict=True)]
    return _Totals(sum(one.calls for one in listed), sum(one.errors for one in listed), server)
