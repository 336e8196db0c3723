"""Decides when the process stops: on request, or without a manager; and lets calls in flight finish.

`server_process.py` closes the sources and the sockets afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

DRAIN_S: Final = 30.0
"""Seconds that calls in flight may take to finish once stopping begins."""


class Lifetime:
    """The lifetime of this process. Create it inside the running loop.

    Args:
        grace_s: seconds without a lifeline after which the process stops, also at the start.
        drain_s: seconds that calls in flight get to finish.
    """

    def __init__(self, grace_s: float, drain_s: float = DRAIN_S) -> None:
        self._loop = asyncio.get_running_loop()
        self._grace_s = grace_s
        self._drain_s = drain_s
        self._lifelines = 0
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._listeners: set[Callable[[], None]] = set()
        self._calls: set[asyncio.Task[Any]] = set()
        self._cancelled: set[asyncio.Task[Any]] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._timer: asyncio.TimerHandle | None = None
        self.cause: str | None = None
        self._count_down()

    @property
    def stopping(self) -> bool:
        """Whether stopping has begun, so that new requests are refused."""
        return self._stop.is_set()

    def stop(self, cause: str) -> None:
        """Begin to stop. Idempotent: the first cause is kept."""
        if self.stopping:
            return
        self.cause = cause
        self._stop.set()
        for listener in tuple(self._listeners):
            listener()

    def signal(self, name: str) -> None:
        """Handle a signal: the first begins to stop, the second ends calls and processes at once."""
        if self.stopping:
            self._hurry.set()
        self.stop(name)

    def on_stop(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` when stopping begins, or now if it has. Returns a function that removes it."""
        self._listeners.add(listener)
        if self.stopping:
            listener()
        return lambda: self._listeners.discard(listener)

    @contextmanager
    def lifeline(self) -> Iterator[None]:
        """A manager's lifeline during the block; the grace starts again when the last one ends."""
        self._lifelines += 1
        if self._timer is not None:
            self._timer.cancel()
        try:
            yield
        finally:
            self._lifelines -= 1
            if self._lifelines == 0:
                self._count_down()

    @contextmanager
    def call(self) -> Iterator[None]:
        """A call in flight in this task; stopping waits for it, at most the drain time, and then cancels it.

        Raises:
            TimeoutError: stopping cancelled the call.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  narrows the type: calls are made in tasks
        self._calls.add(task)
        self._idle.clear()
        try:
            yield
        except asyncio.CancelledError as cancelled:
            if task in self._cancelled and not task.uncancel():
                raise TimeoutError from cancelled
            raise
        finally:
            self._cancelled.discard(task)
            self._calls.discard(task)
            if not self._calls:
                self._idle.set()

    async def until_stopped(self) -> None:
        """Wait until stopping begins, and then for the calls in flight, at most the drain time."""
        await self._stop.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._drain_s):
                await self.unless_hurried(self._idle.wait())
        self._cancelled = set(self._calls)
        for task in self._cancelled:
            task.cancel()

    async def unless_hurried(self, work: Coroutine[Any, Any, object]) -> None:
        """Run `work`, and cancel it at the second signal."""
        task, hurry = asyncio.ensure_future(work), asyncio.create_task(self._hurry.wait())
        try:
            await asyncio.wait({task, hurry}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurry.cancel()
            if not task.done():
                task.cancel()
            await asyncio.gather(task, hurry, return_exceptions=True)

    def _count_down(self) -> None:
        self._timer = self._loop.call_later(self._grace_s, self.stop, "no manager holds the lifeline")
