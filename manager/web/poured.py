"""An answer that nobody reads, on its way from connection to connection: how far it is, who was waited for.

What is written of it, and when, is for those who know its form (`large_body.py`, `large_event.py`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from manager.upstream import heap
from manager.upstream.response import Piece
from manager.web.incoming import Incoming


class Poured(ABC):
    """One such answer.

    Args:
        incoming: gets it, the head too.
        now: a monotonic clock.

    Attributes:
        at: how much of it came, in bytes.
        waited: seconds for which the client was waited for.
    """

    __slots__ = ("_incoming", "_now", "at", "waited")

    def __init__(self, incoming: Incoming, now: Callable[[], float] = time.monotonic) -> None:
        heap.keep()
        self._incoming = incoming
        self._now = now
        self.at = 0
        self.waited = 0.0

    @abstractmethod
    def put(self, data: Piece) -> bool:
        """Take a piece; whether the client keeps up.

        Raises:
            InterruptedAnswerError: it is another answer than was said.
            ConnectionError: the client is gone.
        """

    @abstractmethod
    def finish(self) -> None:
        """All of it has come; raises as `put`."""

    def when_room(self, call: Callable[[], None]) -> None:
        """Call this when the client keeps up again, or is gone."""
        since = self._now()

        def resume() -> None:
            self.waited += self._now() - since
            call()

        self._incoming.when_room(resume)
