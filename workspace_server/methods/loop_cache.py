"""Caches a value for one iteration of the event loop.

An iteration begins when the loop learns which connections have data to read. All requests that are read in it
were sent before, so a value found during the iteration is new enough for each of them. Only for clients that
send one request at a time on a connection, as the manager does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class LoopIterationCache(Generic[T]):
    """Finds a value once per iteration. Call it from the loop's read callbacks only, not from tasks.

    Args:
        find: finds the value, without waiting.
    """

    __slots__ = ("_find", "_found", "_is_found")

    def __init__(self, find: Callable[[], T]) -> None:
        self._find = find
        self._found: T | None = None
        self._is_found = False

    def get(self) -> T:
        """The value of this iteration."""
        if not self._is_found:
            self._found = self._find()
            self._is_found = True
            # runs before anything is read in the next iteration
            asyncio.get_running_loop().call_soon(self._clear)
        return self._found  # type: ignore[return-value]  # it is found

    def _clear(self) -> None:
        self._found = None
        self._is_found = False
