"""Counts the requests that are being answered, and decides whether another one may begin.

Every way of answering begins and ends its requests here: the count for a stop, and the mark of a session.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from manager.routing.state.session_table import Session


class OpenRequests:
    """The requests that are being answered, on any path.

    Requests of a session are known by `jsonrpc.id_key`. The session keeps them, each with the function that
    cancels it.

    Attributes:
        is_draining: whether the manager is stopping, so that no request may begin.
    """

    __slots__ = ("_count", "_idle", "is_draining")

    def __init__(self) -> None:
        self.is_draining = False
        self._count = 0
        self._idle: asyncio.Event | None = None

    def may_begin(self, session: Session | None, key: bytes) -> bool:
        """Whether a request may begin: no stop, and no open request of its session with the same id."""
        # as `is_open`, without a call of a function: every call of the fast path asks
        return not self.is_draining and (session is None or key not in session.in_flight)

    def is_open(self, session: Session | None, key: bytes) -> bool:
        """Whether a request with this id is being answered in a session."""
        return session is not None and key in session.in_flight

    def begin(self, session: Session | None, key: bytes, cancel: Callable[[], object]) -> None:
        """Count a request that begins, and mark it in its session with the function that cancels it."""
        self._count += 1
        if session is not None:
            session.in_flight.add(key, cancel)

    def end(self, session: Session | None, key: bytes) -> None:
        """Count a request that has ended: answered, abandoned, or about to begin on another path."""
        self._count -= 1
        if session is not None:
            session.in_flight.remove(key)
        if not self._count and self._idle is not None:
            self._idle.set()

    async def drained(self, seconds: float) -> bool:
        """Wait at most `seconds` until no request is open; return whether none is."""
        self._idle = self._idle or asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._count:
                    self._idle.clear()
                    await self._idle.wait()
        return not self._count
