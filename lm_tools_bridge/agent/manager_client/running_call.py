"""A request that waits for its response, as the questions of its server see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class RunningCall:
    """One tool call in flight. While a person is asked, its deadline stands still.

    Attributes:
        name: the tool's name.
        arguments: what it was called with.
        on_progress: shows how far it is.
        limit: its deadline.
    """

    name: str
    arguments: Mapping[str, Any]
    on_progress: Callable[[str], None]
    limit: asyncio.Timeout

    _questions: int = field(default=0, init=False)
    _left_s: float | None = field(default=None, init=False)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the deadline for the time of the block; it goes on when the last such block ends."""
        now = asyncio.get_running_loop().time
        when = self.limit.when()
        if self._questions == 0 and when is not None:
            self._left_s = when - now()
            self.limit.reschedule(None)
        self._questions += 1
        try:
            yield
        finally:
            self._questions -= 1
            if self._questions == 0 and self._left_s is not None and not self.limit.expired():
                self.limit.reschedule(now() + self._left_s)
