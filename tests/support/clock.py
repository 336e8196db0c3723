"""Clocks that a test sets: one that stands still, the time of the process put forward, and a virtual time.

Code that runs in an event loop waits by the loop's clock and reads `time.monotonic`, which are one. A virtual time
replaces both, so that hours pass at once and a busy machine is never too slow.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from threading import get_ident
from typing import Any, Final

import pytest

# Bytes that were sent to a socket of this machine have arrived long before; a waiting thread gets as long to send.
_QUIET_S: Final = 0.002


@dataclass
class ManualClock:
    """Monotonic seconds: `now` until a test changes it."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


class AdvancedTime:
    """`time.monotonic`, and with it the time of asyncio's event loop, as it runs or put forward.

    What has bound the function before (`from time import monotonic`) does not notice.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._real = time.monotonic
        self._ahead = 0.0
        patch.setattr(time, "monotonic", self)

    def __call__(self) -> float:
        return self._real() + self._ahead

    def advance(self, seconds: float) -> None:
        """Let this time pass at once; timers fire in the next turn of the event loop."""
        self._ahead += seconds


class VirtualTime:
    """The time of a test's event loop: it stands still while anything is done, and else jumps to the next timer.

    For tests whose whole world is in their own process: nobody waits for another process here. While a job of the
    loop runs in a thread, no time passes. Other threads see the real time, as far ahead as this one.
    What has bound `time.monotonic` before does not notice.

    Args:
        loop: the running event loop, of the standard library.
        patch: undoes everything.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, patch: pytest.MonkeyPatch) -> None:
        self._real = time.monotonic
        self._began = self._now = time.monotonic()
        self._thread = get_ident()
        self._jobs = 0
        selector: Any = getattr(loop, "_selector")  # noqa: B009  of asyncio, which has no other seam for this
        self._select: Callable[[float | None], list[Any]] = selector.select
        self._run_in_executor = loop.run_in_executor
        patch.setattr(time, "monotonic", self)
        patch.setattr(selector, "select", self._await_events)
        patch.setattr(loop, "run_in_executor", self._run_job)

    def __call__(self) -> float:
        if get_ident() == self._thread:
            return self._now
        return self._real() + self.passed

    @property
    def passed(self) -> float:
        """Seconds that have passed in this test."""
        return self._now - self._began

    def _await_events(self, timeout: float | None = None) -> list[Any]:
        """Stands in for `select` of the loop's selector."""
        if timeout is None or timeout <= 0:
            return self._select(timeout)
        if self._jobs:  # its end wakes the loop
            return self._select(None)
        events = self._select(_QUIET_S)
        if not events:
            self._now += timeout
        return events

    def _run_job(
        self, executor: Executor | None, work: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Stands in for `run_in_executor` of the loop."""
        job = self._run_in_executor(executor, work, *args)
        self._jobs += 1
        job.add_done_callback(self._end_job)
        return job

    def _end_job(self, _: object) -> None:
        self._jobs -= 1
