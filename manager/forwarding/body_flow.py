"""Moves the body of a response to a sink as it arrives, with back-pressure.

A piece is written in the same callback that read it, so no task wakes up. While the sink is full, the
response stops reading from the server once its buffer is full. The sink decides what to do with the bytes and
with a body that breaks off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from manager.upstream.response import Piece, UpstreamResponse


class Sink(Protocol):
    """Receives a body."""

    def put(self, data: Piece) -> bool:
        """Take a piece of the body.

        Args:
            data: Not empty. A memoryview is valid during this call only, so keep a copy.

        Returns:
            Whether there is room for more.

        Raises:
            Exception: The sink can take nothing more; the flow ends with this exception.
        """

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call `call` once, when there is room again or the sink has failed."""


class Flow:
    """Moves one body, beginning with its creation.

    Args:
        on_end: Called once, with None if the body is complete, else with the failure.
    """

    __slots__ = ("_is_paused", "_on_end", "_response", "_sink")

    def __init__(
        self, response: UpstreamResponse, sink: Sink, on_end: Callable[[Exception | None], None]
    ) -> None:
        self._response = response
        self._sink = sink
        self._on_end: Callable[[Exception | None], None] | None = on_end
        self._is_paused = False
        response.on_data = self._on_data
        self._on_data()

    def stop(self) -> None:
        """Stop the flow without calling `on_end`. Idempotent."""
        self._on_end = self._response.on_data = None

    def _on_data(self) -> None:
        """Handle new data, or new room in the sink."""
        if self._is_paused or self._on_end is None:
            return
        has_room = True
        try:
            for piece in self._response.take():
                has_room = self._sink.put(piece)
        except Exception as fault:  # noqa: BLE001  the caller is the connection to the server, which must not fail with the sink
            self._end(fault)
            return
        if self._response.has_ended:
            self._end(self._response.failure)
        elif not has_room:
            self._is_paused = True
            self._sink.when_writable(self._resume)

    def _resume(self) -> None:
        self._is_paused = False
        self._on_data()

    def _end(self, fault: Exception | None) -> None:
        on_end = self._on_end
        self.stop()
        if on_end is not None:
            on_end(fault)
