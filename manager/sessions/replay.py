"""The events that were sent last, for clients whose connection broke before they read them.

Bounded thrice: per session, for all sessions together, and in age. Which stream an event belongs to is only
compared here; what streams are is `streams.py`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

MAX_EVENTS: Final = 256
MAX_BYTES: Final = 1024 * 1024
"""Most events and bytes of one session."""
MAX_ALL_BYTES: Final = 64 * 1024 * 1024
MAX_AGE_S: Final = 300.0


class Origin(Protocol):
    """The stream of an event.

    Attributes:
        kept: how many of its events are here.
        lost: the number of its last event that was here and is no longer, 0 for none.
    """

    kept: int
    lost: int


@dataclass(frozen=True, slots=True)
class _Kept:
    origin: Origin
    number: int
    event: bytes
    at: float


@dataclass(slots=True)
class _Shelf:
    """The events of one session, oldest first."""

    events: deque[_Kept] = field(default_factory=deque)
    size: int = 0


class Replay:
    """What was sent to all sessions. `now` gives monotonic seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._shelves: OrderedDict[str, _Shelf] = OrderedDict()  # the least recently written session first
        self.size = 0

    def keep(self, session: str, origin: Origin, number: int, event: bytes) -> None:
        """Keep an event, and let go of the oldest for it; one that is too large is lost at once."""
        if len(event) > MAX_BYTES:
            origin.lost = number
            return
        shelf = self._shelves.setdefault(session, _Shelf())
        self._shelves.move_to_end(session)
        shelf.events.append(_Kept(origin, number, event, self._now()))
        origin.kept += 1
        shelf.size += len(event)
        self.size += len(event)
        while len(shelf.events) > MAX_EVENTS or shelf.size > MAX_BYTES:
            self._lose_oldest(shelf)
        while self.size > MAX_ALL_BYTES:
            longest_quiet, shelf = next(iter(self._shelves.items()))
            self._lose_oldest(shelf)
            if not shelf.events:
                del self._shelves[longest_quiet]

    def after(self, session: str, origin: Origin, number: int) -> list[bytes]:
        """The events of a stream that follow this one and are still here."""
        shelf = self._shelves.get(session)
        if shelf is None:
            return []
        return [one.event for one in shelf.events if one.origin is origin and one.number > number]

    def forget(self, session: str) -> None:
        """The session is over."""
        shelf = self._shelves.pop(session, None)
        while shelf is not None and shelf.events:
            self._lose_oldest(shelf)

    def expire(self) -> None:
        """Let go of what is too old."""
        oldest = self._now() - MAX_AGE_S
        for shelf in self._shelves.values():
            while shelf.events and shelf.events[0].at <= oldest:
                self._lose_oldest(shelf)
        for session in [one for one, shelf in self._shelves.items() if not shelf.events]:
            del self._shelves[session]

    def _lose_oldest(self, shelf: _Shelf) -> None:
        lost = shelf.events.popleft()
        lost.origin.kept -= 1
        lost.origin.lost = lost.number
        shelf.size -= len(lost.event)
        self.size -= len(lost.event)
