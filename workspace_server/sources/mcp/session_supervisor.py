"""One session, there whenever it is needed: started once for all who ask, again after it ended.

Knows neither tools nor processes; `connect` makes the session, `restart.py` says when.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from workspace_server import log
from workspace_server.sources.mcp.failures import SessionFailed, Unavailable
from workspace_server.sources.mcp.restart import Restarts
from workspace_server.sources.mcp.session.session import Session

Connect = Callable[[Callable[[str], None]], Awaitable[Session]]
"""Opens a session; what it is given is to be called with the reason when that session ends by itself."""
SupervisorState = Literal["idle", "starting", "ready", "backoff", "crash_looping", "failed"]


class SessionSupervisor:
    """The session of a source, or of one of its callers.

    Attributes:
        state: `idle` until somebody asks.
        error: why there is no session; None while all is well.
        session: the open session, None while there is none.
    """

    def __init__(
        self,
        connect: Connect,
        on_state: Callable[[], None],
        *,
        source: str,
        revive: bool = True,
        restarts: Restarts | None = None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Nothing is started yet.

        Args:
            connect: opens a session, or raises `SessionFailed`.
            on_state: called after every change of `state`.
            source: id of the source, for logs.
            revive: whether it is started again by itself after it ended, or only when somebody asks.
            restarts: the record to judge by; links of one server share it.
            clock: monotonic seconds.
            chance: random numbers in [0, 1).
        """
        self.state: SupervisorState = "idle"
        self.error: str | None = None
        self.session: Session | None = None
        self._connect = connect
        self._on_state = on_state
        self._source = source
        self._revive = revive
        self._restarts = restarts or Restarts()
        self._clock = clock
        self._chance = chance
        self._ready_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._starting: asyncio.Task[None] | None = None
        self._retiring: asyncio.Task[None] | None = None
        self._closed = False

    async def get(self) -> Session:
        """The open session; starts it where there is none. However many ask, one is started.

        Raises:
            Unavailable: there is none, and it is not time for another try.
        """
        if self.session is not None and self.session.ended is None:
            return self.session
        if self._starting is None:
            if self._closed or self._clock() < self._restarts.not_before:
                raise self._unavailable()
            self._start()
        while self._starting is not None:
            await asyncio.wait([self._starting])  # neither cancels it nor is cancelled with it
        if self.session is None:
            raise self._unavailable()
        return self.session

    def try_now(self) -> None:
        """Start at once if there is no session, whatever the record says."""
        if self.session is None and self._starting is None and not self._closed:
            self._start()

    async def close(self) -> None:
        """End the session, and start no other; at once if the caller is cancelled. Idempotent."""
        self._closed = True
        self._forget_timer()
        starting = self._starting
        try:
            if starting is not None:
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
        finally:
            session, self.session = self.session, None
            self._retire(session)
            if self._retiring is not None:
                await _see_through(self._retiring)

    def _start(self) -> None:
        self._forget_timer()
        self._starting = asyncio.create_task(self._open(), name=f"start-{self._source}")

    async def _open(self) -> None:
        try:
            if self._retiring is not None:
                await asyncio.wait([self._retiring])  # never two of it at once
            self._become("starting", self.error)
            session = await self._connect(self._ended)
        except SessionFailed as failure:
            self._down(failure.text, final=failure.final)
        except Exception as fault:  # noqa: BLE001  a start that breaks is a start that failed
            log.fault("source_start_failed", fault, source=self._source)
            self._down(f"could not be started ({type(fault).__name__})")
        else:
            if session.ended is not None:  # while it was still being opened
                self._retire(session)
                self._down(session.ended)
                return
            self.session, self._ready_at = session, self._clock()
            self._become("ready", None)
        finally:
            self._starting = None

    def _ended(self, reason: str) -> None:
        if self.session is None:
            return  # still being opened, which looks at its end
        session, self.session = self.session, None
        self._retire(session)
        log.info("source_ended", source=self._source, reason=reason)
        self._down(reason)

    def _down(self, error: str, *, final: bool = False) -> None:
        lived = 0.0 if self._ready_at is None else self._clock() - self._ready_at
        self._ready_at = None
        self._restarts.error = error
        if final:
            self._restarts.failed()
            self._become("failed", error)
            return
        pause = self._restarts.ended(self._clock(), lived, self._chance())
        if self._revive and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(pause, self.try_now)
        self._become("crash_looping" if self._restarts.looping else "backoff", error)

    def _become(self, state: SupervisorState, error: str | None) -> None:
        self.state, self.error = state, error
        self._on_state()

    def _retire(self, session: Session | None) -> None:
        if session is not None:
            self._retiring = asyncio.create_task(self._end(session), name=f"stop-{self._source}")

    async def _end(self, session: Session) -> None:
        try:
            await session.close()
        except Exception as fault:  # noqa: BLE001  it is over, whatever went wrong on the way
            log.fault("source_stop_failed", fault, source=self._source)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _unavailable(self) -> Unavailable:
        if self._closed:
            return Unavailable("it was stopped")
        wait = self._restarts.not_before - self._clock()
        again = round(wait * 1000) if 0 < wait < math.inf else None
        return Unavailable(self.error or self._restarts.error or "it ended", retry_after_ms=again)


async def _see_through(task: asyncio.Task[None]) -> None:
    """Wait until an ending is over. Whoever is cancelled meanwhile hurries it; others that wait are not."""
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task])
        raise
