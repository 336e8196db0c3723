"""Tells managers on other hosts which calls wait here, and each change, as server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec

from lm_tools_bridge.approvals.board import ApprovalBoard
from lm_tools_bridge.approvals.waiting_call import WaitingCall
from lm_tools_bridge.protocol import sse
from manager.admin.control.control_messages import refusal
from manager.http import lazy_aiohttp as web

MIN_INTERVAL_S: Final = 0.05
"""Shortest time between two events: each has all calls, so the next has what changes meanwhile."""
QUIET_S: Final = 15.0
"""Longest time without an event, so that a connection that broke off is noticed."""
MOST_LISTENERS: Final = 32
"""Managers on other hosts that listen at once: each keeps a connection and gets every question."""


class ApprovalStream:
    """The route `GET /approvals/changes` of the control socket.

    Args:
        wall: seconds since 1970.
    """

    def __init__(
        self,
        board: ApprovalBoard,
        *,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._board = board
        self._wall = wall
        self._sleep = sleep
        self._wakes: set[asyncio.Event] = set()
        self._is_closed = False

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve the stream until the other side leaves, or the manager stops."""
        if len(self._wakes) >= MOST_LISTENERS:
            return refusal(503, "too_many_listeners")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        events = self.events()
        try:
            async for event in events:
                await response.write(event)
        except ConnectionError:
            pass  # the other side left
        finally:
            await events.aclose()
        return response

    async def events(self) -> AsyncGenerator[bytes]:
        """All calls at first and after each change; a keep-alive after a quiet while."""
        wake, sent_changes = asyncio.Event(), -1
        leave = self._board.listen(wake.set)
        self._wakes.add(wake)
        try:
            while not self._is_closed:
                wake.clear()
                if self._board.changes != sent_changes:
                    sent_changes = self._board.changes
                    yield sse.encode(self._event())
                    await self._sleep(MIN_INTERVAL_S)
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(QUIET_S):
                        await wake.wait()
                    continue
                yield sse.KEEP_ALIVE
        finally:
            self._wakes.discard(wake)
            leave()

    async def close(self, _: web.Application) -> None:
        """End all streams; none begins again."""
        self._is_closed = True
        for wake in self._wakes:
            wake.set()

    def _event(self) -> bytes:
        calls = [_as_report(waiting) for waiting in self._board.reports()]
        return msgspec.json.encode({"now": self._wall(), "approvals": calls})


def _as_report(waiting: WaitingCall) -> dict[str, object]:
    """A call as it is shown here, by its id here: secrets that are hidden here do not leave this host."""
    return {"root": waiting.root, **msgspec.structs.asdict(waiting.call)}
