"""Moves the body of a response to a sink as it arrives, with back-pressure.

A piece is written in the same callback that read it, so no task wakes up. While the sink is full, the
response stops reading from the server once its buffer is full. The sink decides what to do with the bytes and
with a body that breaks off. A `ContentTap` copies the body for the observer of calls, if it wants contents.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from manager.call_observer import MAX_CONTENTS, CallDetails
from manager.forwarding.forwarded_call import ForwardedCall
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

    The deadline of the call is the server's: it is extended by the time spent waiting for the client, which
    `lm_tools_bridge/http_server/writing_connection.py` limits.

    Args:
        on_end: Called once, with None if the body is complete, else with the failure: TimeoutError if the
            server is late, ConnectionError if the client is gone.
        call: The call with the deadline; None for a body without one.
    """

    __slots__ = (
        "_call",
        "_on_end",
        "_paused_at",
        "_response",
        "_sink",
        "_timer",
        "_waited_s",
    )

    def __init__(
        self,
        response: UpstreamResponse,
        sink: Sink,
        on_end: Callable[[Exception | None], None],
        call: ForwardedCall | None = None,
    ) -> None:
        self._response = response
        self._sink = sink
        self._on_end: Callable[[Exception | None], None] | None = on_end
        self._call = call
        self._paused_at: float | None = None  # since when the sink is full
        self._waited_s = 0.0  # for the client, since the last deadline
        self._timer: asyncio.TimerHandle | None = None
        if call is not None and call.deadline is not None:
            self._set_deadline(call, call.deadline - time.monotonic())
        response.on_data = self._on_data
        self._on_data()

    def stop(self) -> None:
        """Stop the flow without calling `on_end`. Idempotent."""
        self._on_end = self._response.on_data = None
        if self._timer is not None:
            self._timer.cancel()

    def _on_data(self) -> None:
        """Handle new data, or new room in the sink."""
        if self._paused_at is not None or self._on_end is None:
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
            self._paused_at = time.monotonic()
            self._sink.when_writable(self._resume)

    def _resume(self) -> None:
        if self._paused_at is not None:
            self._waited_s += time.monotonic() - self._paused_at
            self._paused_at = None
        self._on_data()

    def _end(self, fault: Exception | None) -> None:
        on_end = self._on_end
        self.stop()
        if on_end is not None:
            on_end(fault)

    # -- the deadline ---------------------------------------------------------------------------------------

    def _set_deadline(self, call: ForwardedCall, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(max(0.0, seconds), self._on_deadline, call)

    def _on_deadline(self, call: ForwardedCall) -> None:
        if self._paused_at is None:
            waited_s, self._waited_s = self._waited_s, 0.0
            if waited_s > 0:
                self._set_deadline(call, waited_s)
            else:
                self._end(TimeoutError())
        else:  # the client's connection has a deadline of its own
            self._set_deadline(call, call.timeout_s)


def kept_of(call: ForwardedCall) -> CallDetails | None:
    """Where the copy of a call's answer goes; None if its contents are not observed."""
    details = call.details
    return None if details is None or details.result is None else details


def keep(details: CallDetails, piece: Piece) -> None:
    """Add a piece to the copy, up to `MAX_CONTENTS` bytes."""
    if details.result is not None:
        room = max(0, MAX_CONTENTS - len(details.result))
        details.result += piece[:room]
        details.is_cut = details.is_cut or len(piece) > room


class ContentTap:
    """A sink that passes each piece on, after it was copied."""

    __slots__ = ("_details", "_sink")

    def __init__(self, sink: Sink, details: CallDetails) -> None:
        self._sink = sink
        self._details = details

    def put(self, data: Piece) -> bool:
        """As the sink behind it."""
        keep(self._details, data)
        return self._sink.put(data)

    def when_writable(self, call: Callable[[], None]) -> None:
        """As the sink behind it."""
        self._sink.when_writable(call)
