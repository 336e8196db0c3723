"""Decides who shares a stdio server's process: the whole workspace, one client session, or a single call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from protocol.errors import Reason
from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.session.session import Session
from workspace_server.sources.mcp.session_supervisor import SessionSupervisor

MAX_CALLERS: Final = 32
IDLE_S: Final = 600.0

Make = Callable[[], SessionSupervisor]


class Processes(Protocol):
    """The processes of one source."""

    @property
    def links(self) -> Sequence[SessionSupervisor]:
        """Those there are now."""

    def use(self, caller: str | None) -> AbstractAsyncContextManager[Session]:
        """The session of a caller for the time of a block; None is the source itself, which lists.

        Raises:
            Unavailable: on entering; there is none.
        """

    async def close(self) -> None:
        """End all. Idempotent."""


class SharedProcess:
    """One process for all; it is kept running once it was needed."""

    def __init__(self, make: Make) -> None:
        self.link = make()

    @property
    def links(self) -> Sequence[SessionSupervisor]:
        """The one."""
        return (self.link,)

    @asynccontextmanager
    async def use(self, caller: str | None) -> AsyncIterator[Session]:
        """The same session for everybody."""
        yield await self.link.get()

    async def close(self) -> None:
        """End it."""
        await self.link.close()


class ProcessPerCall:
    """A process for every call, ended with it."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._links: list[SessionSupervisor] = []

    @property
    def links(self) -> Sequence[SessionSupervisor]:
        """One per call under way."""
        return tuple(self._links)

    @asynccontextmanager
    async def use(self, caller: str | None) -> AsyncIterator[Session]:
        """A session of its own."""
        link = self._make()
        self._links.append(link)
        try:
            yield await link.get()
        finally:
            try:
                await link.close()
            finally:
                self._links.remove(link)

    async def close(self) -> None:
        """End what is under way."""
        await asyncio.gather(*(link.close() for link in self._links))


@dataclass(slots=True)
class _Seat:
    link: SessionSupervisor
    used: int = 0
    idle_since: float = 0.0


class ProcessPerSession:
    """A process for every session of a client; idle ones are ended, the oldest first where there are many."""

    def __init__(self, make: Make, idle_s: float = IDLE_S, most: int = MAX_CALLERS) -> None:
        self._make = make
        self._idle_s = idle_s
        self._most = most
        self._seats: dict[str, _Seat] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def links(self) -> Sequence[SessionSupervisor]:
        """One per caller."""
        return tuple(seat.link for seat in self._seats.values())

    @asynccontextmanager
    async def use(self, caller: str | None) -> AsyncIterator[Session]:
        """The caller's session; for listing any will do."""
        key = next(iter(self._seats), "") if caller is None else caller
        seat = self._seats.get(key) or self._seat(key)
        seat.used += 1
        try:
            yield await seat.link.get()
        finally:
            seat.used -= 1
            seat.idle_since = time.monotonic()
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._tidy)

    async def close(self) -> None:
        """End all."""
        if self._timer is not None:
            self._timer.cancel()
        for key in tuple(self._seats):
            self._leave(key)
        await asyncio.gather(*self._leaving)

    def _seat(self, key: str) -> _Seat:
        if len(self._seats) >= self._most:
            idle = [(seat.idle_since, name) for name, seat in self._seats.items() if not seat.used]
            if not idle:
                raise Unavailable(f"{self._most} sessions use it at this moment", reason=Reason.OVERLOADED)
            self._leave(min(idle)[1])
        seat = self._seats[key] = _Seat(self._make())
        return seat

    def _tidy(self) -> None:
        self._timer = None
        now = time.monotonic()
        for key, seat in tuple(self._seats.items()):
            if not seat.used and now - seat.idle_since >= self._idle_s:
                self._leave(key)
        if self._seats:
            self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._tidy)

    def _leave(self, key: str) -> None:
        task = asyncio.create_task(self._seats.pop(key).link.close(), name="idle process")
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
