"""The session with a remote server that is there when it is needed: opened once for all who ask, and again
later.

Unlike `sources/mcp/session_supervisor.py`, which starts programs, this knows that the other side may be
down, busy or want credentials while its session lives: a failed call counts, and a server that is down is
tried again by itself. How a session is opened is the source's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from workspace_server import log
from workspace_server.source import SourceState
from workspace_server.sources.mcp.failures import SessionFailed, Unavailable
from workspace_server.sources.mcp.remote.breaker import OPEN_AFTER, Breaker
from workspace_server.sources.mcp.remote.failures import HttpFailure
from workspace_server.sources.mcp.session.session import Session

WAIT_S: Final = 4.5
"""How long a call waits for a session that is being opened."""
ASK_AGAIN_S: Final = 5.0
"""Without credentials, it is tried at most so often, and only when somebody asks."""

Open = Callable[[Callable[[str], None]], Awaitable[Session]]
"""Opens a session; what it is given is to be called with the reason when that session ends by itself."""
OnState = Callable[[SourceState, str | None], None]


@dataclass(slots=True, eq=False)
class _Held:
    """A session and how many calls use it; replaced ones end with their last call."""

    session: Session
    users: int = 0
    retired: bool = False


class Connection:
    """The session of one source.

    Attributes:
        state, error: as the source shows them; `connecting` until it is known better.
        breaker: the record of failures.
        opened: how often a session was opened.
    """

    def __init__(
        self,
        open_session: Open,
        on_state: OnState,
        *,
        source: str,
        wait_s: float = WAIT_S,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Nothing is opened before somebody asks.

        Args:
            open_session: opens one, or raises `Unavailable`.
            on_state: called with state and error when one of them changes.
            source: id of the source, for logs.
            wait_s: see `WAIT_S`.
            clock: monotonic seconds.
            chance: random numbers in [0, 1).
        """
        self.state: SourceState = "connecting"
        self.error: str | None = None
        self.breaker = Breaker()
        self.opened = 0
        self._open_session = open_session
        self._on_state = on_state
        self._source = source
        self._wait_s = wait_s
        self._clock = clock
        self._chance = chance
        self._held: _Held | None = None
        self._opening: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ask_again_at = 0.0
        self._last: Unavailable | None = None
        self._ends: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def sessions(self) -> Sequence[Session]:
        """The session that new calls get."""
        return () if self._held is None else (self._held.session,)

    @contextlib.asynccontextmanager
    async def use(self, *, patiently: bool = False) -> AsyncIterator[Session]:
        """The session for one call; it stays open until the block is left, whatever happens meanwhile.

        `patiently`: wait for one that is being opened for as long as that takes, not only `wait_s`.

        Raises:
            Unavailable: there is none.
        """
        held = await self._get(None if patiently else self._wait_s)
        held.users += 1
        try:
            yield held.session
        finally:
            held.users -= 1
            if held.retired and not held.users:
                self._end(held)

    def worked(self) -> None:
        """A call got an answer."""
        self.breaker.succeeded()

    def failed(self, failure: Unavailable, session: Session) -> None:
        """A call over this session got none."""
        if not isinstance(failure, HttpFailure):
            return  # the session ended, which is heard of elsewhere, or the call ran out of time
        now = self._clock()
        current = self._held is not None and self._held.session is session
        if failure.kind == "session_lost" and current:
            self._retire()
        elif failure.kind == "throttled" or (
            failure.kind == "failing" and failure.retry_after_ms is not None
        ):
            seconds = None if failure.retry_after_ms is None else failure.retry_after_ms / 1000
            self.breaker.hold(now, seconds)
        if failure.kind == "unauthorized" and current:
            self._down(failure)
        elif failure.kind in ("unreachable", "failing") and current:
            self._note(failure, at_once=failure.kind == "unreachable")

    def try_now(self) -> None:
        """Try at once, whatever the record says; only what the server asked for is respected."""
        if self.state == "ready" or self._closed or self.breaker.held(self._clock()):
            return
        self._start()

    async def close(self) -> None:
        """End the session, and open no other. Idempotent."""
        self._closed = True
        self._forget_timer()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        if self._held is not None:
            self._end(self._held)
            self._held = None
        await asyncio.gather(*self._ends, return_exceptions=True)

    async def _get(self, wait_s: float | None) -> _Held:
        now = self._clock()
        wait = self.breaker.held(now)
        if self._closed:
            raise Unavailable("it was stopped")
        if wait:
            ms = round(wait * 1000)
            raise HttpFailure("throttled", "asked to be left alone for a while", retry_after_ms=ms)
        if (held := self._usable()) is not None:
            return held
        if self._opening is None and not self._may_try(now):
            raise self._unavailable()
        await asyncio.wait([self._start()], timeout=wait_s)
        if (held := self._usable()) is not None:
            return held
        raise self._unavailable()

    def _usable(self) -> _Held | None:
        held = self._held
        return held if held is not None and self.state == "ready" and held.session.ended is None else None

    def _may_try(self, now: float) -> bool:
        if self.state == "failed":
            return False
        if self.state == "auth_required":
            return now >= self._ask_again_at
        return not self.breaker.is_open or now >= self.breaker.until

    def _start(self) -> asyncio.Task[None]:
        if self._opening is None:
            self._forget_timer()
            self._opening = asyncio.create_task(self._open(), name=f"connect-{self._source}")
        return self._opening

    async def _open(self) -> None:
        try:
            session = await self._open_session(self._ended)
        except Unavailable as failure:
            self._down(failure)
        except Exception as fault:  # noqa: BLE001  a connection that breaks is one that failed
            log.fault("source_start_failed", fault, source=self._source)
            self._down(Unavailable(f"could not be connected ({type(fault).__name__})"))
        else:
            self._retire()
            self._held = _Held(session)
            self.opened += 1
            self.breaker.succeeded()
            self._become("ready", None)
        finally:
            self._opening = None

    def _ended(self, reason: str) -> None:
        log.info("source_ended", source=self._source, reason=reason)
        self._retire()
        self._down(Unavailable(reason))

    def _note(self, failure: HttpFailure, *, at_once: bool) -> None:
        """Count a failed call; the source is down when nothing was reached, or when it failed too often."""
        if at_once or self.breaker.failures + 1 >= OPEN_AFTER:
            self._down(failure)
        else:
            self.breaker.failed(self._clock(), self._chance())

    def _down(self, failure: Unavailable) -> None:
        self._last = failure
        now = self._clock()
        if isinstance(failure, HttpFailure) and failure.kind == "unauthorized":
            self._ask_again_at = now + ASK_AGAIN_S
            self._become("auth_required", failure.text)
            return
        if isinstance(failure, SessionFailed) and failure.final:
            self._become("failed", failure.text)
            return
        if failure.retry_after_ms is not None:
            self.breaker.hold(now, failure.retry_after_ms / 1000)
        pause = self.breaker.failed(now, self._chance())
        if not self._closed:
            self._forget_timer()
            self._timer = asyncio.get_running_loop().call_later(pause, self._start)
        self._become("backoff", failure.text)

    def _become(self, state: SourceState, error: str | None) -> None:
        if (state, error) != (self.state, self.error):
            self.state, self.error = state, error
            self._on_state(state, error)

    def _retire(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.retired = True
            if not held.users:
                self._end(held)

    def _end(self, held: _Held) -> None:
        task = asyncio.create_task(held.session.close(), name=f"close-{self._source}")
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _unavailable(self) -> Unavailable:
        """Why there is no session, as the caller of a call should read it: nothing was delivered."""
        if self._opening is not None and self.state in ("connecting", "ready"):
            return Unavailable("is still being connected to", retry_after_ms=1000)
        wait = self.breaker.wait(self._clock())
        again = round(wait * 1000) if self.state == "backoff" and wait > 0 else None
        text = self.error or "is not connected"
        if isinstance(self._last, HttpFailure):
            last = self._last
            return HttpFailure(last.kind, text, status=last.status, retry_after_ms=again)
        return Unavailable(text, retry_after_ms=again)
