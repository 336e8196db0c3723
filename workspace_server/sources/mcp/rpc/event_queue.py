"""A queue of events for one request, which costs little while it is empty."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class EventQueue(Generic[T]):
    """A queue with one reader."""

    __slots__ = ("_coming", "_events")

    def __init__(self) -> None:
        self._events: deque[T] = deque()
        self._coming: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: T) -> None:
        """Add an event."""
        self._events.append(event)
        coming, self._coming = self._coming, None
        if coming is not None and not coming.done():  # it is, where the reader was cancelled
            coming.set_result(None)

    async def get(self) -> T:
        """Remove and return the oldest event; wait for one if there is none."""
        while not self._events:
            self._coming = asyncio.get_running_loop().create_future()
            await self._coming
        return self._events.popleft()
