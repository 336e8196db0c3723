"""Stops servers of workspaces that nobody uses, and lets go of lines to other hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from manager.logs.log import logger
from manager.supervision.workspaces import Workspaces


async def stop_idle(workspaces: Workspaces, busy: Collection[str], limit_s: float, now: float) -> None:
    """Stop servers that had no call, no task and no active session for a while.

    Args:
        busy: ids of workspaces with an active session or an open listen stream, which do not keep servers of
            another version running.
        limit_s: how long; 0 means for ever.
        now: monotonic seconds.
    """
    idle = []
    for workspace in workspaces:
        supervisor = workspace.supervisor
        figures, instance = supervisor.figures, supervisor.instance
        is_used = workspace.id in busy or figures.streams
        if figures.in_flight or figures.tasks or (is_used and not (instance and instance.is_outdated)):
            workspace.used_at = now
        elif limit_s and supervisor.is_held and now - workspace.used_at >= limit_s:
            logger().info("workspace.idle", workspace=workspace.id)
            idle.append(supervisor)
    # concurrently: ten servers that ignore SIGTERM must not delay the watchdog
    await asyncio.gather(*(supervisor.stop() for supervisor in idle))
    if limit_s:
        await workspaces.remote_hosts.disconnect_idle(limit_s, now)
