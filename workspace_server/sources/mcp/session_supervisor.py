"""Keeps one MCP session available: opens it once for all callers, and again after it ended or failed.

A retry policy decides what differs between servers (`retry_policy.py`).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from workspace_server import log
from workspace_server.source import SourceState
from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.retry_policy import RetryPolicy
from workspace_server.sources.mcp.session import Session

OpenSession = Callable[[Callable[[str], None]], Awaitable[Session]]
"""Opens a session or raises `Unavailable`; the argument is called with the reason when that session ends."""
RESTARTING_S: Final = 10.0
"""How long a restart waits for the new session; it is opened in any case."""
SHORT_PAUSE_S: Final = 2.5
"""A call waits for the next try of a server that failed if the pause is no longer."""
# A start or a new session mostly takes a second or two; sooner tries get the same answer.
RETRY_MS: Final = 1000
_OPENING: Final = frozenset({"idle", "starting", "connecting", "ready"})


@dataclass(slots=True, eq=False)
class _Opened:
    """A session and how many callers use it; a replaced one is closed with its last caller."""

    session: Session | None = None
    users: int = 0


class SessionSupervisor:
    """The session of a source, or of one of its callers.

    Attributes:
        state: where the session stands; see `RetryPolicy` for the first one.
        error: why there is no session; None while all is well.
        opened: how many sessions were opened.
    """

    def __init__(
        self,
        open_session: OpenSession,
        policy: RetryPolicy,
        on_state: Callable[[SourceState, str | None], None],
        *,
        source: str,
        revive: bool = True,
        wait_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Open nothing yet.

        Args:
            open_session: opens a session.
            policy: decides about retries; the supervisors of one server may share it.
            on_state: called with state and error after every change.
            source: id of the source, for logs.
            revive: whether a session that ended is opened again without a caller.
            wait_s: how long a call waits for a session that is being opened; None for as long as it takes.
            clock: monotonic seconds.
            chance: random numbers in [0, 1).
        """
        self.state: SourceState = policy.initial_state
        self.error: str | None = None
        self.opened = 0
        self._open_session = open_session
        self._policy = policy
        self._on_state = on_state
        self._source = source
        self._revive = revive
        self._wait_s = wait_s
        self._clock = clock
        self._chance = chance
        self._current: _Opened | None = None
        self._replaced: set[_Opened] = set()  # those that still have callers
        self._opened_at: float | None = None
        self._opening: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closing_ended: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def session(self) -> Session | None:
        """The session that new calls get, None while there is none."""
        return None if self._current is None else self._current.session

    @asynccontextmanager
    async def use(self, *, patiently: bool = False) -> AsyncIterator[Session]:
        """The session for one call; opens it where there is none. However many ask, one is opened.

        The session stays open until the block is left, also when another one replaces it meanwhile.
        `Unavailable` raised in the block counts as a failed call.

        Args:
            patiently: wait as long as opening takes, not only `wait_s`.

        Raises:
            Unavailable: on entering; there is no session, and it is not time for another try.
        """
        opened, session = await self._get(None if patiently else self._wait_s)
        opened.users += 1
        try:
            yield session
        except Unavailable as failure:
            self._call_failed(failure, opened)
            raise
        else:
            self._policy.call_succeeded()
        finally:
            opened.users -= 1
            if opened in self._replaced and not opened.users:
                self._replaced.discard(opened)
                self._close_session(session)

    def try_now(self) -> None:
        """Open a session at once if there is none, unless the server asked to be left alone."""
        if self._usable() is None and not self._closed and self._policy.refusal(self._clock()) is None:
            self._start()

    async def restart(self) -> str:
        """End the session with the calls in it, or an opening that hangs, and open a session now.

        Returns:
            What was done, in words.
        """
        self._cancel_timer()
        self._policy.forgive()
        if (opening := self._opening) is not None:
            opening.cancel()
            await asyncio.wait([opening])
            if self._opening is opening:  # it had not begun; else another restart may have opened one by now
                self._opening = None
        had_session = self.session is not None
        if ending := self._end_all():
            self._closing_ended = asyncio.ensure_future(_finish(set(ending)))
            self._opened_at = None
        if self._closed:
            return "it is being stopped"
        await asyncio.wait([self._start()], timeout=RESTARTING_S)
        return f"{'it was ended and' if had_session else 'it did not run and'} {self._outcome()}"

    async def close(self) -> None:
        """End the session, and those it replaced that still have callers; open no other. Idempotent.

        A caller that is cancelled meanwhile ends them at once.
        """
        self._closed = True
        self._cancel_timer()
        opening = self._opening
        try:
            if opening is not None:
                opening.cancel()
                await asyncio.gather(opening, return_exceptions=True)
        finally:
            self._end_all()
            await _finish(self._closing)

    def _end_all(self) -> list[asyncio.Task[None]]:
        """Begin to end the session, and those it replaced that still have callers."""
        left = [*self._replaced] if self._current is None else [*self._replaced, self._current]
        self._current = None
        self._replaced.clear()
        return [self._close_session(opened.session) for opened in left if opened.session is not None]

    def _outcome(self) -> str:
        if self._opening is not None:
            return "is being started"
        return "is ready again" if self._usable() is not None else f"cannot be started: {self.error}"

    async def _get(self, wait_s: float | None) -> tuple[_Opened, Session]:
        now = self._clock()
        if self._closed:
            raise self._unavailable()
        if (refusal := self._policy.refusal(now)) is not None:
            raise refusal
        if (session := self._usable()) is not None:
            return session
        if self._opening is None and not self._policy.may_open(now):
            await self._wait_out_pause()
        await asyncio.wait([self._start()], timeout=wait_s)  # neither cancels it nor is cancelled with it
        if (session := self._usable()) is not None:
            return session
        raise self._unavailable()

    async def _wait_out_pause(self) -> None:
        """Wait for the end of a short pause before the next try; raise `Unavailable` if it is a long one."""
        unavailable = self._unavailable()
        pause_ms = unavailable.retry_after_ms
        if pause_ms is None or pause_ms > SHORT_PAUSE_S * 1000:
            raise unavailable
        await asyncio.sleep(pause_ms / 1000)
        if self._closed:
            raise self._unavailable()

    def _usable(self) -> tuple[_Opened, Session] | None:
        session = self.session
        if self._current is None or session is None or self.state != "ready" or session.ended is not None:
            return None
        return self._current, session

    def _start(self) -> asyncio.Task[None]:
        if self._opening is None:
            self._cancel_timer()
            self._opening = asyncio.create_task(self._open(), name=f"open-{self._source}")
        return self._opening

    async def _open(self) -> None:
        opened = _Opened()
        try:
            if self._closing_ended is not None:
                await asyncio.wait([self._closing_ended])  # never two processes of one server at once
            if self._policy.opening_state is not None:
                self._become(self._policy.opening_state, self.error)
            opened.session = await self._open_session(lambda reason: self._ended(opened, reason))
        except Unavailable as failure:
            self._down(failure)
        except Exception as fault:  # noqa: BLE001  an opening that breaks is one that failed
            log.fault("source_start_failed", fault, source=self._source)
            self._down(Unavailable(f"could not be opened ({type(fault).__name__})"))
        else:
            self._take_over(opened, opened.session)
        finally:
            self._opening = None

    def _take_over(self, opened: _Opened, session: Session) -> None:
        """Make a new session the current one, unless it ended while it was being opened."""
        if session.ended is not None:
            self._closing_ended = self._close_session(session)
            self._down(Unavailable(session.ended))
            return
        self._cancel_timer()  # set if the previous session ended while this one was being opened
        self._replace()
        self._current, self._opened_at = opened, self._clock()
        self.opened += 1
        self._policy.opened()
        self._become("ready", None)

    def _ended(self, opened: _Opened, reason: str) -> None:
        """A session ended by itself; `_open` handles one that is still being opened."""
        if opened is not self._current or opened.session is None:
            return
        self._current = None
        self._closing_ended = self._close_session(opened.session)
        log.info("source_ended", source=self._source, reason=reason)
        self._down(Unavailable(reason))

    def _call_failed(self, failure: Unavailable, opened: _Opened) -> None:
        is_current = opened is self._current
        verdict = self._policy.call_failed(failure, self._clock(), self._chance(), is_current=is_current)
        if verdict == "keep":
            return
        self._replace()
        if verdict == "down":
            self._down(failure)

    def _down(self, failure: Unavailable) -> None:
        now = self._clock()
        lived = 0.0 if self._opened_at is None else now - self._opened_at
        self._opened_at = None
        retry = self._policy.failed(failure, now, lived, self._chance())
        self._cancel_timer()
        if retry.pause_s is not None and self._revive and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(retry.pause_s, self._start)
        self._become(retry.state, failure.text)

    def _become(self, state: SourceState, error: str | None) -> None:
        self.state, self.error = state, error
        self._on_state(state, error)

    def _replace(self) -> None:
        """Release the current session; it is closed with its last caller."""
        replaced, self._current = self._current, None
        if replaced is not None and replaced.session is not None:
            if replaced.users:
                self._replaced.add(replaced)
            else:
                self._close_session(replaced.session)

    def _close_session(self, session: Session) -> asyncio.Task[None]:
        task = asyncio.create_task(self._end(session), name=f"close-{self._source}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    async def _end(self, session: Session) -> None:
        try:
            await session.close()
        except Exception as fault:  # noqa: BLE001  the session is over, whatever went wrong on the way
            log.fault("source_stop_failed", fault, source=self._source)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _unavailable(self) -> Unavailable:
        if self._closed:
            return Unavailable("it was stopped")
        if self._opening is not None and self.state in _OPENING:
            what = "starting" if self.state == "starting" else "being connected to"
            return Unavailable(f"is still {what}", retry_after_ms=RETRY_MS)
        return self._policy.unavailable(self.error, self._clock())


async def _finish(closing: set[asyncio.Task[None]]) -> None:
    """Wait until all sessions are closed. A caller that is cancelled meanwhile hurries them."""
    tasks = tuple(closing)
    if not tasks:
        return
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
