"""Expires sessions, stops idle servers and feeds the watchdog of systemd, every few seconds."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from manager.assembly import Parts
from manager.startup import systemd
from manager.supervision.unused_workspaces import stop_idle

HOUSEKEEPING_S: Final = 5.0


async def housekeep(parts: Parts, idle_s: float) -> None:
    """Keep house until cancelled.

    Args:
        idle_s: after which servers stop that nobody uses.
    """
    session_manager, workspaces = parts.session_manager, parts.workspaces
    pause = min(HOUSEKEEPING_S, systemd.watchdog_interval() or HOUSEKEEPING_S)
    while True:
        systemd.notify(WATCHDOG=1)
        await session_manager.housekeep()
        await stop_idle(workspaces, session_manager.active_workspaces(idle_s), idle_s, time.monotonic())
        serving = {one.id for one in workspaces if one.supervisor.is_serving}
        session_manager.notifier.notify_recovered(serving)
        await asyncio.sleep(pause)
