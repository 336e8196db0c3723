"""Holds the manager's lifeline open, and tells the manager on it which calls wait for a person."""

from __future__ import annotations

import asyncio
from typing import Final

from protocol import names
from workspace_server.calls.gates.pending_approvals import PendingApprovals
from workspace_server.http.listen import wait
from workspace_server.http.response_stream import Stream
from workspace_server.lifetime import Lifetime

MIN_INTERVAL_S: Final = 0.05
"""Shortest time between two notifications: each has all calls that wait."""


async def hold_lifeline(
    life: Lifetime, stream: Stream, pending: PendingApprovals, keep_alive_s: float
) -> None:
    """Serve a lifeline until the server stops, or its manager is gone (then this is cancelled).

    Args:
        pending: the calls that wait. With the manager, those end whose clients had sessions at it.
    """
    wake = asyncio.Event()
    ends = [life.on_stop(wake.set), pending.listen(wake.set)]
    told = 0
    try:
        while not life.stopping:
            if pending.changes == told:
                await wait(wake, stream, keep_alive_s)
                continue
            told = pending.changes
            await stream.notify(names.APPROVALS, {"approvals": pending.as_json()})
            await asyncio.sleep(MIN_INTERVAL_S)
    finally:
        for end in ends:
            end()
        pending.withdraw_sessions()
