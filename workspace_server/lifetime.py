"""Decides when the process stops: on request, or without a manager; and lets calls in flight finish.

`process.py` closes the sources and the sockets afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

DRAIN_S: Final = 30.0
"""How long calls in flight may take to finish after the order to stop."""


class Life:
    """One run. Make it inside the running loop.

    Args:
        grace_s: seconds without a manager on the lifeline after which the run ends, from the start on too.
        drain_s: seconds that calls in flight get to finish.
    """

    def __init__(self, grace_s: float, drain_s: float = DRAIN_S) -> None:
        self._loop = asyncio.get_running_loop()
        self._grace_s = grace_s
        self._drain_s = drain_s
        self._holders = 0
        self._stop = asyncio.Event()
        self._listeners: set[Callable[[], None]] = set()
        self._calls: set[asyncio.Task[Any]] = set()
        self._ended: set[asyncio.Task[Any]] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._timer: asyncio.TimerHandle | None = None
        self.cause: str | None = None
        self._count_down()

    @property
    def stopping(self) -> bool:
        """Whether new requests are to be refused."""
        return self._stop.is_set()

    def stop(self, cause: str) -> None:
        """Begin to stop. Idempotent; the first cause counts."""
        if self.stopping:
            return
        self.cause = cause
        self._stop.set()
        for listener in tuple(self._listeners):
            listener()

    def on_stop(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` when stopping begins, at once if it has. Returns what ends it."""
        self._listeners.add(listener)
        if self.stopping:
            listener()
        return lambda: self._listeners.discard(listener)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A manager holds the lifeline; when the last one lets go, the grace begins anew."""
        self._holders += 1
        if self._timer is not None:
            self._timer.cancel()
        try:
            yield
        finally:
            self._holders -= 1
            if self._holders == 0:
                self._count_down()

    @contextmanager
    def call(self) -> Iterator[None]:
        """A call in flight in this task; stopping waits for it, and cancels it when the drain time is over.

        Raises:
            TimeoutError: it was cancelled so.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  narrows the type: calls are made in tasks
        self._calls.add(task)
        self._idle.clear()
        try:
            yield
        except asyncio.CancelledError as cancelled:
            if task in self._ended and not task.uncancel():
                raise TimeoutError from cancelled
            raise
        finally:
            self._ended.discard(task)
            self._calls.discard(task)
            if not self._calls:
                self._idle.set()

    async def until_stopped(self) -> None:
        """Wait for the order to stop, and then for the calls in flight, at most the drain time."""
        await self._stop.wait()
        try:
            async with asyncio.timeout(self._drain_s):
                await self._idle.wait()
        except TimeoutError:
            self._ended = set(self._calls)
            for task in self._ended:
                task.cancel()

    def _count_down(self) -> None:
        self._timer = self._loop.call_later(self._grace_s, self.stop, "no manager holds the lifeline")
