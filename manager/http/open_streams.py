"""What all open event streams share: a comment after a silence, and their end when the manager stops."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

SILENCE_S: Final = 15.0
"""Seconds without a byte after which a comment is sent."""


class SilentStream(Protocol):
    """A stream, as far as this module needs it."""

    def send_keep_alive(self) -> None:
        """Send a comment."""


class KeepAlives:
    """The open event streams, the longest silent first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._written_at: OrderedDict[SilentStream, float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._written_at)

    def note_written(self, one: SilentStream) -> None:
        """Note that bytes were written to a stream just now."""
        now = self._loop.time()
        self._written_at[one] = now
        self._written_at.move_to_end(one)
        if self._timer is None:
            self._timer = self._loop.call_at(now + SILENCE_S, self._fire)

    def remove(self, one: SilentStream) -> None:
        """Send no more comments on a stream. Idempotent."""
        self._written_at.pop(one, None)

    def _fire(self) -> None:
        now = self._loop.time()
        while self._written_at:
            one, written_at = next(iter(self._written_at.items()))
            if written_at + SILENCE_S > now:
                self._timer = self._loop.call_at(written_at + SILENCE_S, self._fire)
                return
            self.note_written(one)
            one.send_keep_alive()
        self._timer = None


class StreamEndings:
    """The functions to call when the manager stops."""

    def __init__(self) -> None:
        self._calls: set[Callable[[], None]] = set()
        self._have_ended = False

    def add(self, call: Callable[[], None]) -> None:
        """Call `call` when streams end; at once if they have ended."""
        if self._have_ended:
            call()
        else:
            self._calls.add(call)

    def discard(self, call: Callable[[], None]) -> None:
        """Forget a stream that ended by itself. Idempotent."""
        self._calls.discard(call)

    def end_all(self) -> None:
        """End all streams, and from now on each new one at once."""
        self._have_ended = True
        calls, self._calls = self._calls, set()
        for call in calls:
            call()

    async def wait(self) -> None:
        """Return when streams end."""
        over = asyncio.Event()
        self.add(over.set)
        try:
            await over.wait()
        finally:
            self.discard(over.set)
