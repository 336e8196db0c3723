"""How long calls took and what they waited for: counts in fixed buckets, cheap enough for every call.

Pure: times are arguments, in seconds. Who is told them is `admin/status.py` (the last minutes) and
`admin/measures.py` (all since the start). Writing costs no allocation and no lock; one loop writes and reads.
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
"""Upper bounds of the buckets, 10 µs to 700 s; one more bucket is for what took longer."""
RECENT_MINUTES: Final = 5
"""What `recent` looks back on: so many turns, of a minute each."""


class Histogram:
    """Durations, counted. `counts` has one number more than there are bounds; `total` is their sum."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one. A clock that went backwards counts as nothing."""
        if seconds > 0.0:
            self.total += seconds
        self.counts[bisect_left(BOUNDS, seconds)] += 1

    def copy(self) -> Histogram:
        """One that does not change with this."""
        twin = Histogram()
        twin.counts, twin.total = self.counts.copy(), self.total
        return twin


class Percentiles(msgspec.Struct, frozen=True):
    """What half of the durations stayed below, and what 99 of 100 did."""

    p50: float
    p99: float


class RecentCounts(msgspec.Struct, frozen=True):
    """Counts of the last minutes, which can be added up."""

    server: Sequence[int]
    manager: Sequence[int]


class Timings:
    """The calls of one workspace.

    Attributes:
        server: from sending a call to the end of its answer: the workspace server's time.
        manager: what else a call took, but for waiting: the manager's own time.
        start: what was waited for the workspace's server, by calls that could not be sent at once.
        connection: what was waited for a new connection, where none was free.
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
            begun: when the manager had it; later by what it has waited since.
            sent: when it went out.
            came: when its answer was there.
            now: when the answer was passed on.
        """
        server, manager = self.server, self.manager
        took, own = came - sent, sent - begun + now - came
        server.total += took  # `add`, written out: this is asked with every call
        server.counts[bisect_left(BOUNDS, took)] += 1
        manager.total += own
        manager.counts[bisect_left(BOUNDS, own)] += 1

    def start_minute(self) -> None:
        """A minute is over."""
        self._marks.append(RecentCounts(self.server.counts.copy(), self.manager.counts.copy()))

    def recent(self) -> RecentCounts:
        """What was counted in this minute and the four before."""
        before = self._marks[0]
        return RecentCounts(
            _since(self.server.counts, before.server), _since(self.manager.counts, before.manager)
        )


def sum_counts(parts: Iterable[RecentCounts]) -> RecentCounts:
    """The counts of several workspaces together."""
    listed = list(parts)
    return RecentCounts(_together([one.server for one in listed]), _together([one.manager for one in listed]))


def percentiles(counts: Sequence[int]) -> Percentiles | None:
    """As far as the buckets tell, None where nothing was counted."""
    return Percentiles(_quantile(counts, 0.5), _quantile(counts, 0.99)) if any(counts) else None


def _quantile(counts: Sequence[int], share: float) -> float:
    """A place within its bucket, as if durations were spread evenly there; at most the last bound."""
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
