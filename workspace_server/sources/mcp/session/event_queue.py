"""A queue of events for one request, which costs little while it is empty."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class EventQueue(Generic[T]):
    """Letters for one reader."""

    __slots__ = ("_coming", "_letters")

    def __init__(self) -> None:
        self._letters: deque[T] = deque()
        self._coming: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._letters)

    def put(self, letter: T) -> None:
        """Leave a letter."""
        self._letters.append(letter)
        coming, self._coming = self._coming, None
        if coming is not None and not coming.done():  # it is, where the reader was cancelled
            coming.set_result(None)

    async def get(self) -> T:
        """The oldest letter, once there is one."""
        while not self._letters:
            self._coming = asyncio.get_running_loop().create_future()
            await self._coming
        return self._letters.popleft()
