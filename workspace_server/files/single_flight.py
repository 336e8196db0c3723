"""Runs short disk work for the event loop: shared by callers, in threads where the disk may hang.

No caller of a shared run gets a result that was read before its call: a call during a run waits for the next
run. Network and FUSE file systems may hang for minutes and are read in threads, although handing work to a
thread costs several times as much as a local read. They may also answer from caches, and change without a new
time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Generic, ParamSpec, TypeVar

from lm_tools_bridge.machine.disks import are_local

# A folder comes to another file system when something is mounted there, which is rare. A look costs a thread.
LOOK_AGAIN_S: Final = 10.0
_P = ParamSpec("_P")
_T = TypeVar("_T")


class LocalFiles:
    """Runs short file operations at once where that cannot hang, else in a thread.

    Args:
        folders: absolute and link-free.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folders)
        self._begins = tuple(f"{str(folder).rstrip('/')}/" for folder in folders)
        self._are_local = False
        self._look_at = 0.0

    async def run(
        self, paths: Iterable[Path], function: Callable[_P, _T], *args: _P.args, **keywords: _P.kwargs
    ) -> _T:
        """The result of a function that looks at these paths; they have no links."""
        now = asyncio.get_running_loop().time()
        if now >= self._look_at:
            # the look itself may hang
            self._are_local, self._look_at = (
                await asyncio.to_thread(are_local, self._folders),
                now + LOOK_AGAIN_S,
            )
        if self._are_local and all(str(path).startswith(self._begins) for path in paths):
            return function(*args, **keywords)
        return await asyncio.to_thread(function, *args, **keywords)


T = TypeVar("T")
# Other requests wait for as long. A look at the files of a project takes a fraction of it; a disk that takes
# longer is busy or remote.
QUICK_S: Final = 0.005
# Within it a read of a local disk ends. A longer wait would keep the manager from starting a successor.
CLOSE_S: Final = 1.0


class SharedRun(Generic[T]):
    """Runs one coroutine function for many callers at once. A caller that is cancelled cancels nobody's run.

    Args:
        run: the function; its exceptions are raised to every caller that waits for this run.
    """

    def __init__(self, run: Callable[[], Awaitable[T]]) -> None:
        self._run_once = run
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """The result of a run that began after this call."""
        if self._running is None:
            self._running = self._begin(None)
            return await asyncio.shield(self._running)
        if self._next is None:
            self._next = self._begin(self._running)
        return await asyncio.shield(self._next)

    @property
    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self._running is not None

    def cancel(self) -> None:
        """End the run under way and the one that waits; their callers are cancelled."""
        for task in (self._next, self._running):
            if task is not None:
                task.cancel()

    async def close(self) -> None:
        """Wait at most `CLOSE_S` seconds for runs under way, because a disk may hang."""
        under_way = [task for task in (self._running, self._next) if task is not None]
        if under_way:
            await asyncio.wait(under_way, timeout=CLOSE_S)

    def _begin(self, previous: asyncio.Task[T] | None) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(self._run(previous), name="shared-run")
        task.add_done_callback(self._start_next)
        return task

    async def _run(self, previous: asyncio.Task[T] | None) -> T:
        if previous is not None:
            await asyncio.wait({previous})
        return await self._run_once()

    def _start_next(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # marks it as retrieved: the callers may have been cancelled
        if task is self._running:
            self._running, self._next = self._next, None


class SingleFlight(SharedRun[T]):
    """Runs one blocking function in a thread, for many callers at once.

    Args:
        read: the function; its exceptions are raised to every caller that waits for this run.
        may_be_quick: whether it depends only on local resources. It then runs on the event loop, without a
            thread, as long as the last run took less than `QUICK_S` seconds.
    """

    def __init__(self, read: Callable[[], T], *, may_be_quick: bool = False) -> None:
        super().__init__(lambda: asyncio.to_thread(self._timed))
        self._read = read
        self.may_be_quick = may_be_quick
        self._took = 0.0

    async def get(self) -> T:
        """The result of a run that began after this call."""
        return self._timed() if self._is_quick else await super().get()

    def get_now(self) -> T | None:
        """Like `get`, but None if the caller would have to wait."""
        return self._timed() if self._is_quick else None

    @property
    def _is_quick(self) -> bool:
        return self.may_be_quick and not self.is_running and self._took < QUICK_S

    def _timed(self) -> T:
        began = time.perf_counter()
        try:
            return self._read()
        finally:
            self._took = time.perf_counter() - began
