"""Sends the updates of one session in their order, while those who make them do not wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from lm_tools_bridge.agent.acp.updates import Update, joined

Send = Callable[[Update], Awaitable[None]]


class Outbox:
    """The updates that are still to be sent. Pieces of a text become one while the editor does not read.

    Args:
        send: may raise ConnectionError.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: deque[Update] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_open = False

    def open(self) -> None:
        """Begin to send; before, the editor does not know the session."""
        self._is_open = True
        self._start()

    def put(self, update: Update) -> None:
        """Send an update after those before it."""
        whole = joined(self._waiting[-1], update) if self._waiting else None
        if whole is None:
            self._waiting.append(update)
        else:
            self._waiting[-1] = whole
        self._start()

    async def flush(self) -> None:
        """Wait until everything is sent."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    def close(self) -> None:
        """Send nothing any more."""
        self._is_open = False
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        if self._is_open and self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run(), name="updates")

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._send(self._waiting.popleft())
        except ConnectionError:
            self._is_open = False
            self._waiting.clear()
