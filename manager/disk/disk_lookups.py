"""Runs blocking look-ups on disk in threads, so that a disk that hangs delays only who asks for it.

A hanging network mount blocks its thread for an unlimited time. So every look-up has a daemon thread of its
own: one bad mount would fill a pool, and the pool's threads would delay the exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any, Final, TypeVar

import msgspec

from manager.configuration.budgets import MAX_HANGING_LOOKUPS, MAX_RUNNING_LOOKUPS

DEADLINE_S: Final = 2.0
"""How long a caller waits for the disk."""
SLOW_S: Final = 0.25
"""A look-up that takes longer no longer counts as running, but as hanging: the next one begins."""
# Bounds the memory. When there are more, all are forgotten, and each counts as slow once.
MAX_REMEMBERED: Final = 4096

_Answer = TypeVar("_Answer")


class NoAnswer(Enum):
    """Why there is no answer."""

    TIMED_OUT = "timed out"
    """The disk did not answer within the deadline."""
    BUSY = "busy"
    """Too many look-ups hang; this one was not begun."""


class _Lane:
    """A share of the threads: at most so many that run, and so many that hang."""

    def __init__(self, max_running: int, max_hanging: int) -> None:
        self._turn = asyncio.Semaphore(max_running)
        self._hanging = 0
        self._max_hanging = max_hanging

    async def run(self, work: Callable[[], _Answer]) -> tuple[_Answer, bool] | NoAnswer:
        """The answer, and whether the disk was quick."""
        async with self._turn:
            if self._hanging >= self._max_hanging:
                return NoAnswer.BUSY
            answer = _in_thread(work)
            quick, _ = await asyncio.wait((answer,), timeout=SLOW_S)
        if quick:
            return answer.result(), True
        self._hanging += 1
        try:
            return await answer, False
        finally:
            self._hanging -= 1


class _LookUp(msgspec.Struct, eq=False):
    """A look-up of one key. It is shared until its thread begins: then it may miss what changed since."""

    task: asyncio.Task[Any]
    has_begun: bool = False


class DiskLookups:
    """Runs look-ups for the event loop, with a deadline.

    Of equal look-ups one runs and one waits for its end, which all share who ask meanwhile: nobody gets what
    was read before the question, and a client that retries on a hanging folder holds one thread. Look-ups
    that were answered quickly before have threads of their own: folders that hang do not delay folders in
    use. Belongs to one event loop; needs no closing.
    """

    def __init__(
        self,
        *,
        deadline_s: float = DEADLINE_S,
        max_running: int = MAX_RUNNING_LOOKUPS,
        max_hanging: int = MAX_HANGING_LOOKUPS,
    ) -> None:
        self._deadline_s = deadline_s
        self._known, self._unknown = (_Lane(max_running, max_hanging) for _ in range(2))
        self._quick: set[Hashable] = set()
        self._last: dict[Hashable, _LookUp] = {}

    async def run(self, key: Hashable, work: Callable[[], _Answer]) -> _Answer | NoAnswer:
        """Run `work` in a thread; an equal `key` means equal work. Raises what `work` raises."""
        last = self._last.get(key)
        if last is None or last.has_begun:
            last = self._last[key] = self._after(last, key, work)
        task = last.task
        # `wait` does not cancel the task on a timeout or a cancellation: other callers may share it
        done, _ = await asyncio.wait((task,), timeout=self._deadline_s)
        if done:
            answer: _Answer | NoAnswer = task.result()
            return answer
        return NoAnswer.TIMED_OUT

    def _after(self, former: _LookUp | None, key: Hashable, work: Callable[[], _Answer]) -> _LookUp:
        """A look-up that begins when the former one of its key has ended."""

        def begin() -> _Answer:
            look_up.has_begun = True
            return work()

        async def look_up_in_turn() -> _Answer | NoAnswer:
            if former is not None:
                await asyncio.wait((former.task,))
            return await self._look_up(key, begin)

        def forget(_: asyncio.Task[Any]) -> None:
            if self._last.get(key) is look_up:
                del self._last[key]

        look_up = _LookUp(asyncio.create_task(look_up_in_turn(), name="disk look-up"))
        look_up.task.add_done_callback(forget)
        return look_up

    async def _look_up(self, key: Hashable, work: Callable[[], _Answer]) -> _Answer | NoAnswer:
        lane = self._known if key in self._quick else self._unknown
        outcome = await lane.run(work)
        if isinstance(outcome, NoAnswer):
            return outcome
        answer, was_quick = outcome
        if not was_quick:
            self._quick.discard(key)
        elif key not in self._quick:
            if len(self._quick) >= MAX_REMEMBERED:
                self._quick.clear()
            self._quick.add(key)
        return answer


def _in_thread(work: Callable[[], _Answer]) -> asyncio.Future[_Answer]:
    """Run `work` in its own daemon thread and return the future of its result."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Answer] = loop.create_future()

    def report(settle: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(lambda: None if future.done() else settle())

    def run() -> None:
        try:
            answer = work()
        except Exception as error:  # noqa: BLE001  raised to the callers, not in this thread
            fault = error
            report(lambda: future.set_exception(fault))
        else:
            report(lambda: future.set_result(answer))

    threading.Thread(target=run, name="folder", daemon=True).start()
    return future
