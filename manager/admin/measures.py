"""Takes snapshots of the manager's counters, which count from its start, and measures the event loop's lag.

It keeps calls, errors, durations, memory and lag of each ten seconds of the last ten minutes.
`prometheus_text.py` formats the counters for `/metrics`, `status.py` for the status. Counters of calls are
in `manager/supervision/instance.py` and `manager/supervision/instance.py`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import count
from typing import Final, NamedTuple, Protocol

import msgspec

from lm_tools_bridge.http_server.byte_budget import ByteBudget
from lm_tools_bridge.machine.process_facts import usage_of
from manager import __version__
from manager.sessions.session_manager import SessionManager
from manager.supervision.instance import Figures, Histogram, percentiles
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import Workspaces

EVERY_S: Final = 10
"""Seconds that one moment covers."""
# Sixty moments of ten seconds are ten minutes; each holds five numbers.
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
        spread = percentiles(counts)
        self._moments.append(
            Moment(
                max(0, totals.calls - before.calls),
                max(0, totals.errors - before.errors),
                None if spread is None else spread.p99,
                memory,
                lag_s,
            )
        )


def _sum(figures: Iterable[Figures]) -> _Totals:
    all_figures = list(figures)
    server = [
        sum(column) for column in zip(*(entry.timings.server.counts for entry in all_figures), strict=True)
    ]
    return _Totals(
        sum(entry.calls for entry in all_figures), sum(entry.errors for entry in all_figures), server
    )


MAX_WORKSPACES: Final = 50
"""Workspaces that get figures of their own, most recently used first, to limit the size of a snapshot."""
# Often enough to see a pause of a second, and 60 timers a minute cost nothing that can be measured.
LAG_INTERVAL_S: Final = 1.0
INTERVALS_PER_MINUTE: Final = 60
"""Measurements of the loop's lag in one minute."""


class WorkspaceMeasures(msgspec.Struct, frozen=True):
    """Counters of one workspace. The histograms are copies."""

    id: str
    is_serving: bool
    calls: int
    failures: Mapping[str, int]
    in_flight: int
    streams: int
    tasks: int
    restarts: int
    manager: Histogram
    server: Histogram
    start: Histogram
    connection: Histogram


class Counter(NamedTuple):
    """A counter of a feature, which counts from the start of the manager.

    Attributes:
        name: of the metric, without what all of this program begin with.
        text: says what is counted.
        labels: the names of its labels.
        counts: the values of the labels, and the count.
    """

    name: str
    text: str
    labels: Sequence[str]
    counts: Sequence[tuple[Sequence[str], int]]


class MeasuresSnapshot(msgspec.Struct, frozen=True):
    """All counters at one moment.

    Attributes:
        left_out: workspaces that are not in `workspaces`.
        buffered, buffered_peak: bytes of large requests and responses now, and the most there were.
        counters: those of features.
    """

    version: str
    workspaces: tuple[WorkspaceMeasures, ...]
    left_out: int
    sessions: int
    streams: int
    buffered: int
    buffered_peak: int
    loop_lag: Histogram
    counters: tuple[Counter, ...] = ()


TakeSnapshot = Callable[[], MeasuresSnapshot]
"""Takes a snapshot now."""


class CountingPart(Protocol):
    """A part of the daemon that counts something of its own."""

    def counters(self) -> Sequence[Counter]:
        """The counters now, which do not change any more."""


class Measures:
    """Takes snapshots, and measures the event loop's lag once a second.

    Attributes:
        history: of the last ten minutes.
    """

    def __init__(
        self,
        workspaces: Workspaces,
        session_manager: SessionManager,
        buffers: ByteBudget,
        features: Iterable[CountingPart] = (),
    ) -> None:
        self._features = tuple(features)
        self._workspaces = workspaces
        self._buffers = buffers
        self._session_manager = session_manager
        self._loop_lag = Histogram()
        self.history = History()

    def snapshot(self) -> MeasuresSnapshot:
        """The counters now. The snapshot never changes, so any thread may read it."""
        recent = nlargest(MAX_WORKSPACES, self._workspaces, key=lambda workspace: workspace.used_at)
        return MeasuresSnapshot(
            __version__,
            tuple(_workspace_measures(workspace) for workspace in recent),
            len(self._workspaces) - len(recent),
            len(self._session_manager.sessions),
            len(self._session_manager.streams),
            self._buffers.in_use,
            self._buffers.peak,
            self._loop_lag.copy(),
            tuple(counter for part in self._features for counter in part.counters()),
        )

    async def run(
        self,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Measure the loop's lag each second and start a new slot of timings each minute, until cancelled."""
        longest = 0.0
        for intervals in count(1):
            before = now()
            await sleep(LAG_INTERVAL_S)
            lag = now() - before - LAG_INTERVAL_S
            self._loop_lag.add(lag)
            longest = max(longest, lag)
            if intervals % EVERY_S == 0:
                self._remember(longest)
                longest = 0.0
            if intervals % INTERVALS_PER_MINUTE == 0:
                for workspace in self._workspaces:
                    workspace.supervisor.figures.timings.start_minute()

    def _remember(self, lag_s: float) -> None:
        usage = usage_of(os.getpid())
        figures = (workspace.supervisor.figures for workspace in self._workspaces)
        self.history.add(figures, usage[0] if usage else None, lag_s)


def _workspace_measures(workspace: Workspace) -> WorkspaceMeasures:
    supervisor = workspace.supervisor
    figures, timings = supervisor.figures, supervisor.figures.timings
    return WorkspaceMeasures(
        workspace.id,
        supervisor.is_serving,
        figures.calls,
        dict(figures.failures),
        figures.in_flight,
        figures.streams,
        figures.tasks,
        supervisor.lifecycle.restarts,
        timings.manager.copy(),
        timings.server.copy(),
        timings.start.copy(),
        timings.connection.copy(),
    )
