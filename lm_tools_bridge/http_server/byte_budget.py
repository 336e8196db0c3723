"""Limits the bytes in all large buffers of one server together, and shares them among its clients. Pure.

Whoever is about to collect more than `SMALL` bytes reserves room for them, and waits where there is none.
Bytes that are buffered already, because a client does not read, are counted without a wait.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Final

SMALL: Final = 64 * 1024
"""Bytes up to which a buffer is not counted: small calls pay nothing and never wait."""
SHARES: Final = 2
"""A client that has room waits for more while it would have more than the limit divided by this."""


class Room:
    """The part of the budget that one buffer has or waits for.

    Attributes:
        client: whose buffer it is.
        size: bytes.
        is_granted: whether the bytes may be buffered.
        on_granted: called once when a wait ends with room; None unless it waits, so that no owner is kept.
    """

    __slots__ = ("_budget", "client", "is_granted", "on_granted", "size")

    def __init__(
        self, budget: ByteBudget, client: Hashable, size: int, on_granted: Callable[[], object] | None = None
    ) -> None:
        self.client = client
        self.size = size
        self.is_granted = False
        self.on_granted = on_granted
        self._budget = budget

    def resize(self, size: int) -> None:
        """Count so many bytes from now on, without a wait."""
        self._budget.resize(self, size)

    def release(self) -> None:
        """Give the room back, or end the wait for it. Idempotent."""
        self._budget.release(self)


class ByteBudget:
    """The budget of one server.

    Rooms are granted in turns, one client after the other. A room that does not fit holds up those behind it,
    so that small ones cannot keep a large one waiting; a client beyond its share holds up only itself.

    Args:
        limit: most bytes. A room of more counts as so many, so that it is granted when no other is.

    Attributes:
        in_use: bytes that are counted now.
        peak: the most bytes that were.
    """

    def __init__(self, limit: int = sys.maxsize) -> None:
        self.limit = limit
        self.in_use = self.peak = 0
        self._by_client: Counter[Hashable] = Counter()
        self._waiting: OrderedDict[Hashable, deque[Room]] = OrderedDict()  # the next client first

    @property
    def is_short(self) -> bool:
        """Whether somebody waits for room, or clients that do not read fill more than there is."""
        return bool(self._waiting) or self.in_use > self.limit

    def reserve(self, client: Hashable, size: int, on_granted: Callable[[], object]) -> Room:
        """Reserve room; if the room is not granted at once, `on_granted` is called once it is."""
        room = Room(self, client, min(size, self.limit), on_granted)
        if self._may_pass(room):
            self._grant(room)
        else:
            self._waiting.setdefault(client, deque()).append(room)
        return room

    def count(self, client: Hashable, size: int) -> Room:
        """Count bytes that are buffered already."""
        room = Room(self, client, size)
        self._grant(room)
        return room

    def resize(self, room: Room, size: int) -> None:
        """See `Room.resize`."""
        self._add(room.client, size - room.size)
        room.size = size
        self._grant_waiting()

    def release(self, room: Room) -> None:
        """See `Room.release`."""
        if room.is_granted:
            self._add(room.client, -room.size)
            room.is_granted, room.size = False, 0
        elif room in (queue := self._waiting.get(room.client, deque())):
            queue.remove(room)
            room.on_granted = None
            if not queue:
                del self._waiting[room.client]
        self._grant_waiting()

    def _may_pass(self, room: Room) -> bool:
        """Whether a new room is granted before those that wait, which all lack room or are beyond a share."""
        return (
            self._fits(room)
            and self._is_within_share(room)
            and not any(self._is_within_share(queue[0]) for queue in self._waiting.values())
        )

    def _fits(self, room: Room) -> bool:
        return not self.in_use or self.in_use + room.size <= self.limit

    def _is_within_share(self, room: Room) -> bool:
        held = self._by_client[room.client]
        return not held or held + room.size <= self.limit // SHARES

    def _grant_waiting(self) -> None:
        while (room := self._next()) is not None:
            queue = self._waiting.pop(room.client)
            queue.popleft()
            if queue:
                self._waiting[room.client] = queue  # behind the others
            on_granted = room.on_granted
            self._grant(room)
            if on_granted is not None:
                on_granted()

    def _next(self) -> Room | None:
        """The room that is granted next; None while it does not fit or there is none."""
        rooms = (queue[0] for queue in self._waiting.values())
        room = next(filter(self._is_within_share, rooms), None)
        return room if room is not None and self._fits(room) else None

    def _grant(self, room: Room) -> None:
        room.is_granted, room.on_granted = True, None
        self._add(room.client, room.size)

    def _add(self, client: Hashable, size: int) -> None:
        self.in_use += size
        self.peak = max(self.peak, self.in_use)
        self._by_client[client] += size
        if not self._by_client[client]:
            del self._by_client[client]
