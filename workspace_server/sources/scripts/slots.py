"""Limits how many scripts run at once. Others wait in order for a while and are then refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

from lm_tools_bridge.protocol.errors import Reason, Refusal
from workspace_server.budgets import MAX_SCRIPTS

# Shorter than the time limit of common clients, so that a caller learns why it waited.
WAIT_S: Final = 30.0


class Slots:
    """A semaphore for running scripts with a limited wait. Callers get a slot in the order of their requests.

    Args:
        running: number of slots.
        wait_s: longest wait for a slot, in seconds.
    """

    def __init__(self, running: int = MAX_SCRIPTS, wait_s: float = WAIT_S) -> None:
        self.limit = running
        self.running = 0
        self.waiting = 0
        self._wait_s = wait_s
        self._free = asyncio.Semaphore(running)

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Refusal | None]:
        """Hold a slot until the context ends. Yields None, or a refusal if no slot became free in time.

        A script that another script calls does not compete with its caller, because both would wait for ever.
        It uses the slots of its caller (`nested`), so that the scripts that one script calls run one by one.
        """
        slots = _nested.get() or self
        if not await slots._wait_for_slot():
            text = f"{slots.limit} scripts run (fixed limit) and none ended within {slots._wait_s:g} s"
            yield Refusal(Reason.OVERLOADED, text, delivered="no", retry_after_ms=1000)
            return
        slots.running += 1
        try:
            yield None
        finally:
            slots.running -= 1
            slots._free.release()

    async def _wait_for_slot(self) -> bool:
        self.waiting += 1
        try:
            async with asyncio.timeout(self._wait_s):
                return await self._free.acquire()
        except TimeoutError:
            return False
        finally:
            self.waiting -= 1

    def nested(self) -> Slots:
        """Slots for the scripts that one running script calls; one runs at a time."""
        return Slots(1, self._wait_s)


def use(slots: Slots) -> None:
    """Make scripts that the current task calls from now on use `slots`."""
    _nested.set(slots)


_nested: ContextVar[Slots | None] = ContextVar("nested_slots", default=None)
