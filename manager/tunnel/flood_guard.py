"""Notices that the other side of a line sends much that is no content: each costs time here. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import h2.events

IDLE_FRAMES: Final = 500
"""Frames without content in one second at which the other side counts as hostile."""

IDLE_BYTES: Final = 128 * 1024
"""Bytes in one second that are no content, in frames of any kind, at which it counts as hostile too.

Twice the largest frame: one of which a part has arrived counts until its rest is there.
"""

_IDLE: Final = (
    h2.events.PingReceived,
    h2.events.RemoteSettingsChanged,
    h2.events.SettingsAcknowledged,
    h2.events.PriorityUpdated,
    h2.events.UnknownFrameReceived,
)


class FloodGuard:
    """Counts frames without content, and bytes that are no content."""

    def __init__(self) -> None:
        self._count, self._size, self._since = 0, 0, float("-inf")

    def is_flood(self, events: Collection[h2.events.Event], size: int, now: float) -> bool:
        """Count a read at this monotonic time; returns whether it is too much.

        Args:
            events: of the read.
            size: of the read, in bytes.
        """
        if now - self._since > 1:
            self._count, self._size, self._since = 0, 0, now
        self._count += sum(map(_is_idle, events))
        self._size += size - sum(len(e.data or b"") for e in events if isinstance(e, h2.events.DataReceived))
        return self._count > IDLE_FRAMES or self._size > IDLE_BYTES


def _is_idle(event: h2.events.Event) -> bool:
    """Whether a frame says nothing about any stream."""
    if isinstance(event, h2.events.DataReceived):
        return not event.data and event.stream_ended is None
    return isinstance(event, _IDLE)
