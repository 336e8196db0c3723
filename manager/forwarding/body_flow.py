"""Moves the body of a response to a sink as it arrives, with back-pressure.

Nobody's task wakes for a piece: what is read from one connection is written to the other in the same
callback. Where the taker is full, the server is made to wait, by the response's own bound. What is made of
the bytes, and what becomes of a body that breaks off, is the taker's to know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from manager.upstream.response import Piece, UpstreamResponse


class Sink(Protocol):
    """Who takes a body."""

    def put(self, data: Piece) -> bool:
        """Take a piece, which is not empty and perhaps only lent; whether there is room for more.

        Raises:
            Exception: it can take nothing any more; the flow ends with this.
        """

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call this once when there is room again, or never will be."""


class Flow:
    """One such body, from when it is made on.

    Args:
        on_end: called once, with None where the body is complete, else with what went wrong.
    """

    __slots__ = ("_is_held", "_on_end", "_response", "_sink")

    def __init__(
        self, response: UpstreamResponse, sink: Sink, on_end: Callable[[Exception | None], None]
    ) -> None:
        self._response = response
        self._sink = sink
        self._on_end: Callable[[Exception | None], None] | None = on_end
        self._is_held = False
        response.on_data = self._on_data
        self._on_data()

    def stop(self) -> None:
        """Take nothing more; `on_end` is not called. Idempotent."""
        self._on_end = self._response.on_data = None

    def _on_data(self) -> None:
        """Something came, or there is room again."""
        if self._is_held or self._on_end is None:
            return
        has_room = True
        try:
            for piece in self._response.take():
                has_room = self._sink.put(piece)
        except Exception as fault:  # noqa: BLE001  the caller of this is the connection of somebody else
            self._end(fault)
            return
        if self._response.has_ended:
            self._end(self._response.failure)
        elif not has_room:
            self._is_held = True
            self._sink.when_writable(self._resume)

    def _resume(self) -> None:
        self._is_held = False
        self._on_data()

    def _end(self, fault: Exception | None) -> None:
        on_end = self._on_end
        self.stop()
        if on_end is not None:
            on_end(fault)
