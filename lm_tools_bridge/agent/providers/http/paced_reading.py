"""Reads a fast reply once a frame, since waking up for each of its tokens costs more than reading it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp

FRAME_S: Final = 0.03
"""Seconds between two reads of a fast reply: shorter than a person sees."""


class PacedReading:
    """The bytes of one reply.

    What arrives after a pause is read at once. As soon as two reads lie in one frame, the next one waits for
    the end of the frame, and the connection rests meanwhile.

    Args:
        response: the reply's.
        now: seconds; by default those of the running loop.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        *,
        now: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        self._response = response
        self._now = now or asyncio.get_running_loop().time
        self._sleep = sleep
        self._last = -math.inf
        self._rests = False

    async def next(self) -> bytes:
        """The next bytes; none at the end. Raises what `aiohttp.StreamReader.readany` raises."""
        if self._rests:
            await self._rest(self._last + FRAME_S - self._now())
        chunk = await self._response.content.readany()
        now = self._now()
        self._rests = now - self._last < (2 * FRAME_S if self._rests else FRAME_S)
        self._last = now
        return chunk

    async def _rest(self, seconds: float) -> None:
        connection = self._response.connection
        transport = connection.transport if connection is not None else None
        if seconds <= 0 or not isinstance(transport, asyncio.ReadTransport):
            return  # the reply has arrived already
        transport.pause_reading()
        try:
            await self._sleep(seconds)
        finally:
            transport.resume_reading()
