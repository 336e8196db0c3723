"""Base of the sinks that pass a response to a client unread, while it arrives.

What is written of it, and when, is for those who know its form (`large_json.py`, `large_event.py`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from manager.http.request import HttpRequest
from manager.runtime_tuning import malloc
from manager.upstream.response import Piece

JOINED: Final = 16 * 1024
"""Bytes that are written with the head. Each write may wake the client, and copying these is quicker."""


class BodySink(ABC):
    """One such answer.

    Args:
        http_request: gets it, the head too.
        now: a monotonic clock.

    Attributes:
        at: how much of it came, in bytes.
        waited: seconds for which the client was waited for.
        held: what came, where it is to be kept until something is written; None where not, or not any more.
        on_done: called when the client has all of it, where that is seen before the end of the body.
    """

    __slots__ = ("_http_request", "_now", "at", "held", "on_complete", "waited")

    def __init__(self, http_request: HttpRequest, now: Callable[[], float] = time.monotonic) -> None:
        malloc.keep_freed_memory()
        self._http_request = http_request
        self._now = now
        self.at = 0
        self.waited = 0.0
        self.held: list[Piece] | None = None
        self.on_complete: Callable[[], None] | None = None

    @abstractmethod
    def put(self, data: Piece) -> bool:
        """Take a piece; whether the client keeps up.

        Raises:
            InterruptedAnswerError: it is another answer than was said.
            ConnectionError: the client is gone.
        """

    @abstractmethod
    def finish(self) -> None:
        """The body has come to its end; raises as `put`."""

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call this when the client keeps up again, or is gone."""
        since = self._now()

        def resume() -> None:
            self.waited += self._now() - since
            call()

        self._http_request.when_writable(resume)
