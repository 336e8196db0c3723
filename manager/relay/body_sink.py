"""Base class of the sinks that forward a response body to a client as it arrives, without parsing it.

The subclasses in `large_json.py` and `large_event.py` decide which bytes are written, and when.
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
"""Bytes of the body that are written together with the head: copying them costs less than a second write."""


class BodySink(ABC):
    """Writes one response body, and its head, to a client.

    Args:
        http_request: the client's request.
        now: a monotonic clock, in seconds.

    Attributes:
        received: bytes received from the server so far.
        client_wait_s: seconds spent waiting for the client to read.
        buffered: the pieces buffered until the first write; None once it has begun, or if unbuffered.
        on_complete: called once the whole response is written, if that is before the server's body ends.
    """

    __slots__ = ("_http_request", "_now", "buffered", "client_wait_s", "on_complete", "received")

    def __init__(self, http_request: HttpRequest, now: Callable[[], float] = time.monotonic) -> None:
        malloc.keep_freed_memory()
        self._http_request = http_request
        self._now = now
        self.received = 0
        self.client_wait_s = 0.0
        self.buffered: list[Piece] | None = None
        self.on_complete: Callable[[], None] | None = None

    @abstractmethod
    def put(self, data: Piece) -> bool:
        """Process the next piece of the body.

        Returns:
            Whether the client can take more now; if not, see `when_writable`.

        Raises:
            InterruptedAnswerError: the body is too large, or not the response that the server announced.
            ConnectionError: the client has disconnected.
        """

    @abstractmethod
    def finish(self) -> None:
        """Write the end of the response, after the last piece; raises as `put` does."""

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call this once the client can take more or has disconnected; add the time to `client_wait_s`."""
        since = self._now()

        def resume() -> None:
            self.client_wait_s += self._now() - since
            call()

        self._http_request.when_writable(resume)
