"""Looks regularly at what waits for a person, and tells the desktop. Does nothing without a session bus."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.util import find_spec
from typing import Any, Final, Protocol

from lm_tools_bridge.approvals.board import ApprovalBoard
from lm_tools_bridge.approvals.desktop import Desktop, DesktopFailure, session_bus
from lm_tools_bridge.approvals.notification_throttle import Close, Throttle
from manager.logs.log import logger
from manager.status_reading.attention import attention

LOOK_S: Final = 1.0
"""How often calls that wait for approval are looked at; that costs next to nothing."""
STATUS_EVERY: Final = 10
"""Every how many looks the whole status is read, for what waits else."""
DEADLINE_S: Final = 5.0
"""Longest time that the desktop gets: one that hangs must not end the looks."""
AFTER_FAILURE_S: Final = 60.0
"""Pause after a failure, so that a desktop that refuses is not asked every second."""


class Shows(Protocol):
    """A desktop."""

    async def show(self, title: str, body: str) -> None:
        """See `Desktop`."""

    async def withdraw(self) -> None:
        """See `Desktop`."""

    def close(self) -> None:
        """See `Desktop`."""


async def notify_desktop(status: Callable[[], dict[str, Any]], approvals: ApprovalBoard) -> None:
    """Run until cancelled; return at once if notifications cannot be shown here."""
    if find_spec("dbus_fast") is None:
        return
    address = session_bus(os.environ)
    if address is None:
        return
    await Notifications(Desktop(address), status, approvals).run()


class Notifications:
    """Tells a desktop what waits.

    Args:
        desktop: where it is shown.
        status: the status as `/mcp/status` shows it.
        approvals: the calls that wait.
    """

    def __init__(
        self,
        desktop: Shows,
        status: Callable[[], Mapping[str, Any]],
        approvals: ApprovalBoard,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._desktop = desktop
        self._status = status
        self._approvals = approvals
        self._now = now
        self._sleep = sleep
        self._throttle = Throttle()
        self._looks = 0
        self._changes = 0
        self._has_failed = False

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        try:
            while True:
                await self._sleep(LOOK_S if await self._look_safely() else AFTER_FAILURE_S)
        finally:
            self._desktop.close()

    async def _look_safely(self) -> bool:
        try:
            return await self.look()
        except Exception as fault:  # noqa: BLE001  the next look may succeed
            self._report(fault)
            return False

    async def look(self) -> bool:
        """Look once; False if the desktop could not be told."""
        self._looks += 1
        is_due = self._looks % STATUS_EVERY == 1 or self._throttle.may_tell(self._now())
        if self._approvals.changes == self._changes and not is_due:
            return True
        self._changes = self._approvals.changes
        step = self._throttle.next(attention(self._status()), self._now())
        if step is None:
            return True
        try:
            async with asyncio.timeout(DEADLINE_S):
                await (self._desktop.withdraw() if isinstance(step, Close) else self._desktop.show(*step))
        except (DesktopFailure, TimeoutError) as failure:
            self._report(failure)
            return False
        self._has_failed = False
        return True

    def _report(self, failure: Exception) -> None:
        if not self._has_failed:
            is_late = isinstance(failure, TimeoutError)
            why = "it did not answer in time" if is_late else str(failure) or type(failure).__name__
            logger().warning("notifications.failed", why=why)
        self._has_failed = True
