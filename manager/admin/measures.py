"""Reads all counters of the manager at one moment; they count from its start.

`metrics.py` formats them for `/metrics`, `status.py` for the status. Counters of calls are kept in
`forwarding/in_flight.py` and `routing/state/timings.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from heapq import nlargest
from itertools import count
from typing import Final

import msgspec

from manager import __version__
from manager.routing.state.timings import Histogram
from manager.sessions.session_manager import SessionManager
from manager.supervision.workspaces import Workspace, Workspaces

MAX_WORKSPACES: Final = 50
"""So many workspaces are told apart, those used last: who collects this pays for each of them."""
LAG_INTERVAL_S: Final = 1.0
INTERVALS_PER_MINUTE: Final = 60
"""So many looks are a minute."""


class WorkspaceMeasures(msgspec.Struct, frozen=True):
    """Those of one workspace. The histograms are copies."""

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


class MeasuresSnapshot(msgspec.Struct, frozen=True):
    """All of them. `left_out` is how many workspaces there are besides those told."""

    version: str
    workspaces: tuple[WorkspaceMeasures, ...]
    left_out: int
    sessions: int
    streams: int
    loop_lag: Histogram


TakeSnapshot = Callable[[], MeasuresSnapshot]
"""Looks at everything now."""


class Measures:
    """Takes them, and looks once a second how late the loop is."""

    def __init__(self, workspaces: Workspaces, session_manager: SessionManager) -> None:
        self._workspaces = workspaces
        self._session_manager = session_manager
        self._loop_lag = Histogram()

    def snapshot(self) -> MeasuresSnapshot:
        """As they are now: what happens later changes nothing in them, so any thread may read them."""
        told = nlargest(MAX_WORKSPACES, self._workspaces, key=lambda one: one.used_at)
        return MeasuresSnapshot(
            __version__,
            tuple(_of(one) for one in told),
            len(self._workspaces) - len(told),
            len(self._session_manager.sessions),
            len(self._session_manager.streams),
            self._loop_lag.copy(),
        )

    async def run(
        self,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Look at the loop, and turn the pages of the last minutes, for ever."""
        for looks in count(1):
            before = now()
            await sleep(LAG_INTERVAL_S)
            self._loop_lag.add(now() - before - LAG_INTERVAL_S)
            if looks % INTERVALS_PER_MINUTE == 0:
                for workspace in self._workspaces:
                    workspace.supervisor.figures.timings.start_minute()


def _of(workspace: Workspace) -> WorkspaceMeasures:
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
