"""What was found out for one request holds for all that came in the same turn of the loop.

A turn begins when the loop is told which connections have something to read. Whatever is found out later in
it is found out after all those requests were sent, so nobody gets what was seen before they asked. So it
is with callers who send one request at a time on each connection, as the manager does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class LoopIterationCache(Generic[T]):
    """Asks once in a turn. For what is called by the loop when something was read, and not from tasks.

    Args:
        find: finds it out, without waiting.
    """

    __slots__ = ("_find", "_found", "_is_found")

    def __init__(self, find: Callable[[], T]) -> None:
        self._find = find
        self._found: T | None = None
        self._is_found = False

    def get(self) -> T:
        """What was found out in this turn."""
        if not self._is_found:
            self._found = self._find()
            self._is_found = True
            # called before anything is read in the next turn
            asyncio.get_running_loop().call_soon(self._end)
        return self._found  # type: ignore[return-value]  # it is found

    def _end(self) -> None:
        self._found = None
        self._is_found = False
