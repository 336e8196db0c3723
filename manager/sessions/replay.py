"""Buffers recent events, within fixed limits, for clients that resume a stream with `Last-Event-ID`.

The buffer is bounded per session, over all sessions, and by age.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from manager.configuration.budgets import MAX_ALL_EVENT_BYTES, MAX_SESSION_EVENT_BYTES, MAX_SESSION_EVENTS

MAX_AGE_S: Final = 300.0


class Origin(Protocol):
    """The stream that an event belongs to.

    Attributes:
        kept: number of its events in the buffer.
        lost: number of its newest event that has left the buffer, 0 for none.
    """

    kept: int
    lost: int


@dataclass(frozen=True, slots=True)
class _Event:
    origin: Origin
    number: int
    event: bytes
    at: float


@dataclass(slots=True)
class _SessionBuffer:
    """The events of one session, oldest first."""

    events: deque[_Event] = field(default_factory=deque)
    size: int = 0


class Replay:
    """Buffers the events of all sessions. `now` returns monotonic seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._by_session: OrderedDict[str, _SessionBuffer] = OrderedDict()  # least recently written first
        self.size = 0

    def keep(self, session: str, origin: Origin, number: int, event: bytes) -> None:
        """Buffer an event, unless it exceeds the session's bytes, and drop the oldest beyond the limits."""
        if len(event) > MAX_SESSION_EVENT_BYTES:
            origin.lost = number
            return
        buffer = self._by_session.setdefault(session, _SessionBuffer())
        self._by_session.move_to_end(session)
        buffer.events.append(_Event(origin, number, event, self._now()))
        origin.kept += 1
        buffer.size += len(event)
        self.size += len(event)
        while len(buffer.events) > MAX_SESSION_EVENTS or buffer.size > MAX_SESSION_EVENT_BYTES:
            self._drop_oldest(buffer)
        while self.size > MAX_ALL_EVENT_BYTES:
            least_recent, buffer = next(iter(self._by_session.items()))
            self._drop_oldest(buffer)
            if not buffer.events:
                del self._by_session[least_recent]

    def after(self, session: str, origin: Origin, number: int) -> list[bytes]:
        """Return the buffered events of a stream with a higher number than this."""
        buffer = self._by_session.get(session)
        if buffer is None:
            return []
        return [one.event for one in buffer.events if one.origin is origin and one.number > number]

    def forget(self, session: str) -> None:
        """Drop all events of a session that has ended."""
        buffer = self._by_session.pop(session, None)
        while buffer is not None and buffer.events:
            self._drop_oldest(buffer)

    def expire(self) -> None:
        """Drop events older than `MAX_AGE_S`."""
        oldest = self._now() - MAX_AGE_S
        for buffer in self._by_session.values():
            while buffer.events and buffer.events[0].at <= oldest:
                self._drop_oldest(buffer)
        for session in [one for one, buffer in self._by_session.items() if not buffer.events]:
            del self._by_session[session]

    def _drop_oldest(self, buffer: _SessionBuffer) -> None:
        dropped = buffer.events.popleft()
        dropped.origin.kept -= 1
        dropped.origin.lost = dropped.number
        buffer.size -= len(dropped.event)
        self.size -= len(dropped.event)
