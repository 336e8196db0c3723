"""Holds the manager's lifeline open, and tells the manager on it of calls that wait and tasks that ended."""

from __future__ import annotations

import asyncio
from typing import Final

from lm_tools_bridge.protocol import names
from workspace_server.calls.gates.pending_approvals import PendingApprovals
from workspace_server.http.listen import wait
from workspace_server.http.response_stream import Stream
from workspace_server.lifetime import Lifetime
from workspace_server.tasks.ended_tasks import EndedTasks

MIN_INTERVAL_S: Final = 0.05
"""Shortest time between notifications: each has all calls that wait, or as many tasks as have ended."""


async def hold_lifeline(
    life: Lifetime, stream: Stream, pending: PendingApprovals, ended_tasks: EndedTasks, keep_alive_s: float
) -> None:
    """Serve a lifeline until the server stops, or its manager is gone (then this is cancelled).

    Args:
        pending: the calls that wait. With the manager, those end whose clients had sessions at it.
        ended_tasks: the tasks to report.
    """
    wake = asyncio.Event()
    ends = [life.on_stop(wake.set), pending.listen(wake.set), ended_tasks.listen(wake.set)]
    reported_changes = 0
    try:
        while not life.stopping:
            if pending.changes == reported_changes and not ended_tasks:
                await wait(wake, stream, keep_alive_s)
                continue
            if pending.changes != reported_changes:
                reported_changes = pending.changes
                await stream.notify(names.APPROVALS, {"approvals": pending.as_json()})
            await ended_tasks.report(stream.notify)
            await asyncio.sleep(MIN_INTERVAL_S)
        await ended_tasks.report(stream.notify)
    finally:
        for end in ends:
            end()
        pending.withdraw_sessions()
