"""Shares one read of the disk between callers that ask at about the same time.

No caller gets a result that was read before it asked: a caller that comes during a read waits for the next.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
QUICK_S: Final = 0.005
CLOSE_S: Final = 1.0


class SingleFlight(Generic[T]):
    """Runs one blocking function in a thread, for many callers at once.

    Args:
        look: the function; what it raises is raised to everybody who waits for that look.
        may_be_quick: whether it never waits for anything but this machine; it is then run at once, without a
            thread, as long as the last run took less than `QUICK_S` seconds.
    """

    def __init__(self, look: Callable[[], T], *, may_be_quick: bool = False) -> None:
        self._look = look
        self.may_be_quick = may_be_quick
        self._took = 0.0
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """The result of a look that began after this was called."""
        if self._is_quick:
            return self._timed()
        if self._running is None:
            self._running = self._begin(None)
            return await asyncio.shield(self._running)
        if self._next is None:
            self._next = self._begin(self._running)
        return await asyncio.shield(self._next)

    def get_now(self) -> T | None:
        """The same, or None where it has to be waited for."""
        return self._timed() if self._is_quick else None

    @property
    def _is_quick(self) -> bool:
        return self.may_be_quick and self._running is None and self._took < QUICK_S

    async def close(self) -> None:
        """Wait a moment for the looks under way: a disk that hangs does not keep anybody from ending."""
        under_way = [task for task in (self._running, self._next) if task is not None]
        if under_way:
            await asyncio.wait(under_way, timeout=CLOSE_S)

    def _begin(self, former: asyncio.Task[T] | None) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(self._run(former), name="look")
        task.add_done_callback(self._done)
        return task

    async def _run(self, former: asyncio.Task[T] | None) -> T:
        if former is not None:
            await asyncio.wait({former})
        return await asyncio.to_thread(self._timed)

    def _timed(self) -> T:
        began = time.perf_counter()
        try:
            return self._look()
        finally:
            self._took = time.perf_counter() - began

    def _done(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # whoever waits has it; nobody may wait any more
        if task is self._running:
            self._running, self._next = self._next, None
