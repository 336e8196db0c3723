"""Fills the silences of event streams, of all of them by one timer."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final, Protocol

SILENCE_S: Final = 15.0
"""So long a silence is filled."""


class Quiet(Protocol):
    """Who is silent."""

    def fill(self) -> None:
        """Say something that means nothing."""


class KeepAlives:
    """The streams that want it, the longest silent first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._spoke: OrderedDict[Quiet, float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._spoke)

    def note(self, one: Quiet) -> None:
        """It spoke just now."""
        now = self._loop.time()
        self._spoke[one] = now
        self._spoke.move_to_end(one)
        if self._timer is None:
            self._timer = self._loop.call_at(now + SILENCE_S, self._ring)

    def forget(self, one: Quiet) -> None:
        """It has ended. Idempotent."""
        self._spoke.pop(one, None)

    def _ring(self) -> None:
        now = self._loop.time()
        while self._spoke:
            one, spoke = next(iter(self._spoke.items()))
            if spoke + SILENCE_S > now:
                self._timer = self._loop.call_at(spoke + SILENCE_S, self._ring)
                return
            self.note(one)
            one.fill()
        self._timer = None
