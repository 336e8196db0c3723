"""Histograms of call durations and waiting times, cheap enough for every call.

Times are arguments in seconds. `manager/admin/status.py` shows the last minutes,
`manager/admin/measures.py` everything since the start. Recording allocates nothing and needs
no lock: one event loop writes and reads.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

BOUNDS: Final = tuple(
    float(f"{digits}e{power}") for power in range(-5, 3) for digits in ("1", "1.5", "2", "3", "5", "7")
)
"""Upper bounds of the buckets, 10 µs to 700 s. One more bucket counts longer durations."""
RECENT_MINUTES: Final = 5
"""Number of minutes that `recent` covers."""


class Histogram:
    """Counts of durations by bucket (`len(BOUNDS) + 1` counts), and the sum of the durations."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration. A negative one adds nothing to the total."""
        if seconds > 0.0:
            self.total += seconds
        self.counts[bisect_left(BOUNDS, seconds)] += 1

    def copy(self) -> Histogram:
        """An independent copy."""
        twin = Histogram()
        twin.counts, twin.total = self.counts.copy(), self.total
        return twin


class Percentiles(msgspec.Struct, frozen=True):
    """Median and 99th percentile in seconds."""

    p50: float
    p99: float


class RecentCounts(msgspec.Struct, frozen=True):
    """Bucket counts of the last minutes; counts of several workspaces can be added."""

    server: Sequence[int]
    manager: Sequence[int]


class Timings:
    """Timings of the calls of one workspace.

    Attributes:
        server: from sending a call to the end of its response: the workspace server's time.
        manager: the rest of the call except waiting: the manager's own time.
        start: time that calls waited for the workspace server to become ready.
        connection: time that calls waited for a new connection.
    """

    __slots__ = ("_marks", "connection", "manager", "server", "start")

    def __init__(self) -> None:
        self.server = Histogram()
        self.manager = Histogram()
        self.start = Histogram()
        self.connection = Histogram()
        self._marks: deque[RecentCounts] = deque([RecentCounts((), ())], maxlen=RECENT_MINUTES)

    def record_call(self, begun: float, sent: float, came: float, now: float) -> None:
        """Count a call that ended.

        Args:
            begun: when the manager had received it, plus the time it has waited since.
            sent: when it was sent to the workspace server.
            came: when its response had arrived.
            now: when the response was forwarded.
        """
        server, manager = self.server, self.manager
        took, own = came - sent, sent - begun + now - came
        server.total += took  # `add`, inlined for speed
        server.counts[bisect_left(BOUNDS, took)] += 1
        manager.total += own
        manager.counts[bisect_left(BOUNDS, own)] += 1

    def start_minute(self) -> None:
        """Start the next minute."""
        self._marks.append(RecentCounts(self.server.counts.copy(), self.manager.counts.copy()))

    def recent(self) -> RecentCounts:
        """Counts of this minute and the previous ones (`RECENT_MINUTES` in all)."""
        before = self._marks[0]
        return RecentCounts(
            _since(self.server.counts, before.server), _since(self.manager.counts, before.manager)
        )


def sum_counts(parts: Iterable[RecentCounts]) -> RecentCounts:
    """The sums of the counts of several workspaces."""
    listed = list(parts)
    if len(listed) == 1:  # one row of a status with hundreds of them
        return listed[0]
    return RecentCounts(_together([one.server for one in listed]), _together([one.manager for one in listed]))


def percentiles(counts: Sequence[int]) -> Percentiles | None:
    """Estimate percentiles from bucket counts; None if nothing was counted."""
    return Percentiles(_quantile(counts, 0.5), _quantile(counts, 0.99)) if any(counts) else None


def _quantile(counts: Sequence[int], share: float) -> float:
    """Interpolate linearly within a bucket; at most the last bound."""
    left = share * sum(counts)
    for index, (bound, count) in enumerate(zip(BOUNDS, counts, strict=False)):
        if count and left <= count:
            lower = BOUNDS[index - 1] if index else 0.0
            return lower + (bound - lower) * left / count
        left -= count
    return BOUNDS[-1]


def _since(counts: Sequence[int], before: Sequence[int]) -> Sequence[int]:
    return [now - then for now, then in zip(counts, before, strict=True)] if before else counts


def _together(several: Sequence[Sequence[int]]) -> Sequence[int]:
    return [sum(column) for column in zip(*several, strict=True)]
