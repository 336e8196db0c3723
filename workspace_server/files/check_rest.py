"""Lets checks of files rest that take long, so that a project cannot make every request long.

A project that nobody trusts yet can bring thousands of tool folders. Whatever it brings, its checks take at
most a tenth of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final

BRIEF_S: Final = 0.05
"""Processor time up to which a check never rests, so that a change takes effect with the next request. The
check of a hundred tool folders takes a tenth of it."""
REST: Final = 9
"""How many times as long as it took a longer check rests."""


class CheckRest:
    """When a check may be left out. Used by one thread at a time, but for `end`.

    Args:
        clock: monotonic seconds.
        processor_s: the processor time of this thread in seconds: a busy machine makes no check long.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        processor_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._clock = clock
        self._processor_s = processor_s
        self._until = 0.0
        self._decisions: Hashable = None

    def holds(self, decisions: Hashable) -> bool:
        """Whether the check may be left out now; not if `decisions`, those of the user, have changed."""
        has_decided, self._decisions = decisions != self._decisions, decisions
        return not has_decided and self._clock() < self._until

    def end(self) -> None:
        """Have the next check made."""
        self._until = 0.0

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Make a check."""
        began = self._processor_s()
        yield
        took = self._processor_s() - began
        self._until = self._clock() + REST * took if took > BRIEF_S else 0.0
