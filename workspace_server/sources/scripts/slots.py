"""Limits how many scripts run at once. Others wait in order for a while and are then refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

from protocol.errors import Reason, Refusal

RUNNING: Final = 8
WAIT_S: Final = 30.0


class Slots:
    """Places for running scripts, given in the order they were asked for.

    Args:
        running: how many there are.
        wait_s: how long somebody waits for one, in seconds.
    """

    def __init__(self, running: int = RUNNING, wait_s: float = WAIT_S) -> None:
        self.limit = running
        self.running = 0
        self.waiting = 0
        self._wait_s = wait_s
        self._free = asyncio.Semaphore(running)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[Refusal | None]:
        """Hold a place; the value is None, or the answer where there was none in time.

        A script that was called by a script does not compete with its caller, which would wait for it for
        ever: it uses the caller's place, and those that one script calls run one after the other.
        """
        slots = _lent.get() or self
        if not await slots._enter():
            text = f"{slots.limit} scripts are running and none ended within {slots._wait_s:g} s"
            yield Refusal(Reason.OVERLOADED, text, delivered="no", retry_after_ms=1000)
            return
        slots.running += 1
        try:
            yield None
        finally:
            slots.running -= 1
            slots._free.release()

    async def _enter(self) -> bool:
        self.waiting += 1
        try:
            async with asyncio.timeout(self._wait_s):
                return await self._free.acquire()
        except TimeoutError:
            return False
        finally:
            self.waiting -= 1

    def lent(self) -> Slots:
        """The place of one running script, for the scripts that it calls."""
        return Slots(1, self._wait_s)


def use(slots: Slots) -> None:
    """From here on, what the current task calls runs in these places."""
    _lent.set(slots)


_lent: ContextVar[Slots | None] = ContextVar("lent", default=None)
