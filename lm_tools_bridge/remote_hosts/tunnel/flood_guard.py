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

EXPECTED_BYTES: Final = 8 * 1024 * 1024
EXPECTED_S: Final = 60.0
"""What may still arrive of streams that this side has dropped: at most so much, and not longer."""

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
        self._expected, self._expected_at = 0, float("-inf")

    def expect(self, size: int, now: float) -> None:
        """Note that so many bytes may be on their way for a stream that this side drops at this time."""
        expected = self._expected if now - self._expected_at < EXPECTED_S else 0
        self._expected, self._expected_at = min(expected + size, EXPECTED_BYTES), now

    def is_flood(self, events: Collection[h2.events.Event], size: int, now: float) -> bool:
        """Count a read at this monotonic time; returns whether it is too much.

        Args:
            events: of the read.
            size: of the read, in bytes.
        """
        if now - self._since > 1:
            self._count, self._size, self._since = 0, 0, now
        self._count += sum(map(_is_idle, events))
        content = sum(len(event.data or b"") for event in events if isinstance(event, h2.events.DataReceived))
        self._size += self._unexpected(size - content, now)
        return self._count > IDLE_FRAMES or self._size > IDLE_BYTES

    def _unexpected(self, size: int, now: float) -> int:
        """How many of these bytes belong to no stream that was dropped."""
        if size <= 0 or now - self._expected_at >= EXPECTED_S:
            return size
        expected = min(size, self._expected)
        self._expected -= expected
        return size - expected


def _is_idle(event: h2.events.Event) -> bool:
    """Whether a frame says nothing about any stream."""
    if isinstance(event, h2.events.DataReceived):
        return not event.data and event.stream_ended is None
    return isinstance(event, _IDLE)
