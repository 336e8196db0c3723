"""An HTTP answer that is an event stream: opened once, never silent for long, ended once.

It knows bytes only; what they say, and to whom, is decided by those who write (`writer.py`, `standing.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from manager.routing.arrival import EVENTS
from manager.web.incoming import Incoming
from protocol import sse

KEEP_ALIVE_S: Final = 15.0
"""So long a silence is filled with a comment (M15, M-29)."""

STREAM_FIELDS: Final = {"X-Accel-Buffering": "no"}
"""What the head of such an answer says beside what all answers say."""


class EventResponse:
    """One such answer.

    Attributes:
        is_amid: whether a part of an event was written whose rest follows; else comments may come in between.
    """

    def __init__(self, incoming: Incoming, headers: Mapping[str, str]) -> None:
        self._incoming = incoming
        self._headers = {**headers, **STREAM_FIELDS}
        self._loop = asyncio.get_running_loop()
        self.is_amid = False
        self._written_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._comment: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Send the head.

        Raises:
            ConnectionError: the client is gone; so do `write` and `close`.
        """
        self._incoming.start(200, self._headers, EVENTS)
        self._written_at = self._loop.time()
        self._wait(KEEP_ALIVE_S)

    async def write(self, data: bytes) -> None:
        """Write whole events; returns when the client keeps up."""
        self._written_at = self._loop.time()
        await self._incoming.write(data)

    def put(self, data: bytes) -> bool:
        """Write some of an event, or events; whether the client keeps up."""
        self._written_at = self._loop.time()
        return self._incoming.put(data)

    def when_room(self, call: Callable[[], None]) -> None:
        """Call this when the client keeps up again, or is gone."""
        self._incoming.when_room(call)

    def close(self) -> None:
        """End it."""
        self._rest()
        self._incoming.finish()

    def abort(self) -> None:
        """Cut the connection off."""
        self._rest()
        self._incoming.abort()

    # -- silence ------------------------------------------------------------------------------------------

    def _wait(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._look)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        if self._incoming.is_gone:
            return
        left = self._written_at + KEEP_ALIVE_S - self._loop.time()
        if left <= 0 and not self.is_amid and (self._comment is None or self._comment.done()):
            self._comment = self._loop.create_task(self._fill(), name="keep-alive")
        self._wait(left if left > 0 else KEEP_ALIVE_S)

    async def _fill(self) -> None:
        if self._timer is None:
            return  # ended meanwhile
        try:
            await self.write(sse.KEEP_ALIVE)
        except ConnectionError:
            self._rest()
