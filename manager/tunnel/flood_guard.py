"""Notices that the other side of a line sends many frames without content: each costs time here. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import h2.events

IDLE_FRAMES: Final = 500
"""Frames without content in one second at which the other side counts as hostile."""


class FloodGuard:
    """Counts frames without content."""

    def __init__(self) -> None:
        self._count, self._since = 0, float("-inf")

    def is_flood(self, events: Iterable[h2.events.Event], now: float) -> bool:
        """Count the events of a read at this monotonic time; returns whether they are too many."""
        if now - self._since > 1:
            self._count, self._since = 0, now
        self._count += sum(map(_is_idle, events))
        return self._count > IDLE_FRAMES


def _is_idle(event: h2.events.Event) -> bool:
    """Whether a frame says nothing about any stream."""
    if isinstance(event, h2.events.DataReceived):
        return not event.data and event.stream_ended is None
    return isinstance(
        event, h2.events.PingReceived | h2.events.RemoteSettingsChanged | h2.events.UnknownFrameReceived
    )
