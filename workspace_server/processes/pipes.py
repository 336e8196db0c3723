"""Our ends of a child's pipes: plain descriptors that the loop watches only while somebody waits.

No transports and no buffers: what nobody reads stays in the kernel, so a flood stops at the pipe's 64 KiB.
Real pipes, because a child may open `/dev/stdin` or `/dev/stderr`; uvloop's socket pairs do not allow that.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

CHUNK: Final = 64 * 1024
_REST_S: Final = 0.002


class PipeWriteError(Exception):
    """Nothing more can be written to this child: it closed the pipe, or did not read in time."""


class PipeEnd:
    """One descriptor of ours, and whoever waits for it."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for it right now."""
        return self._waiter is not None

    def close(self) -> None:
        """Release the descriptor and wake whoever waits. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        self._unwatch(descriptor)
        os.close(descriptor)
        self._wake()

    def _watch(self, descriptor: int) -> None:
        raise NotImplementedError

    def _unwatch(self, descriptor: int) -> None:
        raise NotImplementedError

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _ready(self) -> None:
        """Wait until the descriptor is ready or closed. One at a time."""
        if self._descriptor is None:
            return
        if self._waiter is not None:
            raise RuntimeError("somebody waits for this pipe already")
        self._waiter = self._loop.create_future()
        self._watch(self._descriptor)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if self._descriptor is not None:
                self._unwatch(self._descriptor)


class ReadEnd(PipeEnd):
    """The reading end of a pipe."""

    def _watch(self, descriptor: int) -> None:
        self._loop.add_reader(descriptor, self._wake)

    def _unwatch(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)

    async def read(self, n: int) -> bytes:
        """Up to `n` bytes as soon as there are any; nothing at the end, or when it was closed.

        Who is cancelled here has lost nothing: what was read is returned at once.
        """
        await asyncio.sleep(0)  # a fast writer must not keep the loop to itself
        while (chunk := self.read_now(n)) is None:
            await self._ready()
        return chunk

    def read_now(self, n: int) -> bytes | None:
        """What is there without waiting: None when there is nothing yet, no bytes at the end."""
        if self._descriptor is None:
            return b""
        try:
            return os.read(self._descriptor, n)
        except BlockingIOError:
            return None

    async def drain(self, take: Callable[[bytes], None]) -> None:
        """Read to the end and give everything to `take`, in order even if others `read_now` in between."""
        while chunk := await self.read(CHUNK):
            take(chunk)
            await asyncio.sleep(_REST_S)  # a flood must not keep a core busy, however it is cut


class WriteEnd(PipeEnd):
    """The writing end of a pipe. Messages of several writers never mix."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._turn = asyncio.Lock()
        self._failure: str | None = None
        self._rest: asyncio.Task[None] | None = None

    def _watch(self, descriptor: int) -> None:
        self._loop.add_writer(descriptor, self._wake)

    def _unwatch(self, descriptor: int) -> None:
        self._loop.remove_writer(descriptor)

    async def write(self, data: bytes, timeout_s: float) -> None:
        """Write all of `data`, or fail; a message that was begun is finished even if the caller is cancelled.

        Raises:
            PipeWriteError: it was not taken within `timeout_s` seconds, or the pipe is broken. A message may
                have been written in part then, so every later write fails, too.
        """
        deadline = self._loop.time() + timeout_s
        if self._turn.locked():
            await self._wait_for_turn(deadline)
        else:
            await self._turn.acquire()  # at once
        try:
            left = self._put(memoryview(data))
        except BaseException:
            self._turn.release()
            raise
        if not left:
            self._turn.release()
            return
        self._rest = asyncio.create_task(self._finish(left, deadline), name="write to child")
        self._rest.add_done_callback(self._finished)
        await asyncio.shield(self._rest)

    async def _wait_for_turn(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._turn.acquire()
        except TimeoutError:
            raise PipeWriteError("it does not read its standard input") from None

    async def _finish(self, left: memoryview, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                while left:
                    await self._ready()
                    left = self._put(left)
        except TimeoutError:
            self._failure = "it does not read its standard input"
            raise PipeWriteError(self._failure) from None
        except asyncio.CancelledError:
            self._failure = "a message was broken off"
            raise

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._turn.release()
        if not task.cancelled():
            task.exception()  # retrieved: the caller may have been cancelled

    def _put(self, data: memoryview) -> memoryview:
        if self._descriptor is None:
            raise PipeWriteError("its standard input is closed")
        if self._failure is not None:
            raise PipeWriteError(self._failure)
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self._failure = error.strerror or "broken"
            raise PipeWriteError(self._failure) from None
        return data

    @property
    def unfinished(self) -> asyncio.Task[None] | None:
        """The task that writes the rest of a message, which `close` ends."""
        return self._rest
