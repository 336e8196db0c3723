"""Tracks whether a client keeps up with what is written to it, and lets writers wait until it does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Backpressure:
    """The write side of one connection.

    Attributes:
        is_paused: whether the transport's write buffer is above its high-water mark.
    """

    __slots__ = ("_resumed", "is_paused")

    def __init__(self) -> None:
        self._resumed: asyncio.Future[None] | None = None
        self.is_paused = False

    def pause(self) -> None:
        """Note that the transport paused writing."""
        if self._resumed is None:
            self._resumed = asyncio.get_running_loop().create_future()
            self.is_paused = True

    def resume(self, fault: Exception | None = None) -> None:
        """Release the writers that wait; with `fault`, `drain` raises it for them."""
        resumed, self._resumed, self.is_paused = self._resumed, None, False
        if resumed is None:
            return
        if fault is None:
            resumed.set_result(None)
        else:
            resumed.set_exception(fault)
            resumed.exception()  # marked as retrieved: perhaps no writer waits

    def call_when_resumed(self, call: Callable[[], None]) -> None:
        """Call `call` when writing resumes or the connection is lost; soon where writing is not paused."""
        if self._resumed is None:
            asyncio.get_running_loop().call_soon(call)
        else:
            self._resumed.add_done_callback(lambda _: call())

    async def drain(self) -> None:
        """Return when writing is not paused.

        Raises:
            Exception: the fault that `resume` was given.
        """
        if self._resumed is not None:
            await asyncio.shield(self._resumed)
