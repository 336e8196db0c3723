"""Decides who shares a stdio server's process: the whole workspace, one client session, or a single call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from lm_tools_bridge.protocol.errors import Reason
from workspace_server.budgets import MAX_SESSION_PROCESSES
from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.session import Session
from workspace_server.sources.mcp.session_supervisor import SessionSupervisor

# Longer than the pauses in which a person reads and thinks; a process costs tens of megabytes.
IDLE_S: Final = 600.0
_CLOSED: Final = "it was ended"
"""A call may still read a stored list when its source closes; a process that it started would stay."""

MakeSupervisor = Callable[[], SessionSupervisor]


class Processes(Protocol):
    """The processes of one source, each with its own session supervisor."""

    @property
    def supervisors(self) -> Sequence[SessionSupervisor]:
        """One for each process at this moment."""

    def use(self, caller: str | None) -> AbstractAsyncContextManager[Session]:
        """The session of a caller for the time of a block; None stands for the source itself, which lists.

        Raises:
            Unavailable: on entering; there is none.
        """

    async def restart(self) -> str:
        """End all processes with their calls, and start what runs without a caller; returns what was done."""

    async def close(self) -> None:
        """End all processes. Idempotent."""


class SharedProcess:
    """One process for everybody, kept running once it was needed."""

    def __init__(self, make: MakeSupervisor) -> None:
        self.supervisor = make()

    @property
    def supervisors(self) -> Sequence[SessionSupervisor]:
        """The only one."""
        return (self.supervisor,)

    def use(self, caller: str | None) -> AbstractAsyncContextManager[Session]:
        """The same session for everybody."""
        return self.supervisor.use(patiently=caller is None)

    async def restart(self) -> str:
        """Another process in its place."""
        return await self.supervisor.restart()

    async def close(self) -> None:
        """End the process."""
        await self.supervisor.close()


class ProcessPerCall:
    """A process for every call, ended with the call."""

    def __init__(self, make: MakeSupervisor) -> None:
        self._make = make
        self._supervisors: list[SessionSupervisor] = []
        self._is_closed = False

    @property
    def supervisors(self) -> Sequence[SessionSupervisor]:
        """One per call in flight."""
        return tuple(self._supervisors)

    @asynccontextmanager
    async def use(self, caller: str | None) -> AsyncIterator[Session]:
        """A session of its own for each call."""
        if self._is_closed:
            raise Unavailable(_CLOSED)
        supervisor = self._make()
        self._supervisors.append(supervisor)
        try:
            async with supervisor.use(patiently=caller is None) as session:
                yield session
        finally:
            try:
                await supervisor.close()
            finally:
                self._supervisors.remove(supervisor)

    async def restart(self) -> str:
        """End the calls in flight."""
        ended = len(self._supervisors)
        await self._end_all()
        return _ended(ended, "call")

    async def close(self) -> None:
        """End the calls in flight; later ones are refused."""
        self._is_closed = True
        await self._end_all()

    async def _end_all(self) -> None:
        await asyncio.gather(*(supervisor.close() for supervisor in self._supervisors))


@dataclass(slots=True)
class _ClientProcess:
    """The process of one client session."""

    supervisor: SessionSupervisor
    calls: int = 0
    idle_since: float = 0.0


class ProcessPerSession:
    """A process for every client session. Idle ones are ended, the longest idle first if there are many."""

    def __init__(
        self, make: MakeSupervisor, idle_s: float = IDLE_S, max_sessions: int = MAX_SESSION_PROCESSES
    ) -> None:
        self._make = make
        self._idle_s = idle_s
        self._max_sessions = max_sessions
        self._processes: dict[str, _ClientProcess] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def supervisors(self) -> Sequence[SessionSupervisor]:
        """One per client session."""
        return tuple(process.supervisor for process in self._processes.values())

    @asynccontextmanager
    async def use(self, caller: str | None) -> AsyncIterator[Session]:
        """The session of this caller; for listing, any will do."""
        if self._is_closed:
            raise Unavailable(_CLOSED)
        key = next(iter(self._processes), "") if caller is None else caller
        process = self._processes.get(key) or self._add(key)
        process.calls += 1
        try:
            async with process.supervisor.use(patiently=caller is None) as session:
                yield session
        finally:
            process.calls -= 1
            process.idle_since = time.monotonic()
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._end_idle)

    async def restart(self) -> str:
        """End the processes of all sessions."""
        ended = len(self._processes)
        await self._end_all()
        return _ended(ended, "session")

    async def close(self) -> None:
        """End all processes; later callers are refused."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._end_all()

    async def _end_all(self) -> None:
        for key in tuple(self._processes):
            self._end(key)
        await asyncio.gather(*self._ending)

    def _add(self, key: str) -> _ClientProcess:
        if len(self._processes) >= self._max_sessions:
            idle = [
                (process.idle_since, name) for name, process in self._processes.items() if not process.calls
            ]
            if not idle:
                text = f"{self._max_sessions} sessions use it at this moment (fixed limit)"
                raise Unavailable(text, reason=Reason.OVERLOADED)
            self._end(min(idle)[1])
        process = self._processes[key] = _ClientProcess(self._make())
        return process

    def _end_idle(self) -> None:
        self._timer = None
        now = time.monotonic()
        for key, process in tuple(self._processes.items()):
            if not process.calls and now - process.idle_since >= self._idle_s:
                self._end(key)
        if self._processes:
            self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._end_idle)

    def _end(self, key: str) -> None:
        task = asyncio.create_task(self._processes.pop(key).supervisor.close(), name="idle process")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def _ended(count: int, user: str) -> str:
    """What a restart did where processes start with their callers."""
    what = "no process ran" if not count else f"{count} process{'' if count == 1 else 'es'} ended"
    return f"{what}; each {user} starts its own"
