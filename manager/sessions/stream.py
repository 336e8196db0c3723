"""One event stream of a session: numbers events, writes them to a connection, hands them to replay.

A stream outlives its connections: a broken connection ends no call, and a client that reconnects with
`Last-Event-ID` continues where it stopped. The connection itself is `http/event_response.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from lm_tools_bridge.protocol import sse
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.names import numbers_events, primes_streams
from manager.configuration.budgets import MAX_SESSION_EVENT_BYTES
from manager.sessions.event_ids import EventId
from manager.sessions.replay import Replay

RETRY_MS: Final = 3000
"""The `retry` field of event streams. A connection mostly breaks because the manager restarts, which takes a
moment; the official SDKs reconnect only once or twice."""


class EventSink(Protocol):
    """A connection that a stream is written to."""

    @property
    def is_full(self) -> bool:
        """Whether the write buffer is full because the client reads too slowly."""

    def put(self, data: bytes) -> object:
        """Write whole events without waiting.

        Raises:
            ConnectionError: the client is gone.
        """

    async def write(self, data: bytes) -> None:
        """Like `put`, then wait until the write buffer has room."""

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call this when the client keeps up again, or is gone."""

    def close(self) -> None:
        """End the response properly. Raises as `put` does."""

    def abort(self) -> None:
        """Drop the connection; the stream continues on another one."""


class Stream:
    """One stream. Events are written immediately, in order; `send` applies back-pressure.

    Attributes:
        name: prefix of its event ids.
        sent: number of its last event.
        sink: the current connection; a broken one may stay until the next replaces it.
        kept, lost: see `replay.Origin`.
        is_ended: whether no event will follow.
    """

    __slots__ = (
        "_ended",
        "_replay",
        "_request",
        "_revision",
        "_session",
        "is_ended",
        "kept",
        "lost",
        "name",
        "sent",
        "sink",
    )

    def __init__(
        self, session: str, name: str, revision: str, replay: Replay, request: bytes | None = None
    ) -> None:
        self.name = name
        self.sent = self.kept = self.lost = 0
        self.sink: EventSink | None = None
        self.is_ended = False
        self._session = session
        self._revision = revision
        self._replay = replay
        self._request = request
        self._ended: asyncio.Event | None = None  # created by the first waiter

    # -- connections --------------------------------------------------------------------------------------

    def attach(self, sink: EventSink) -> None:
        """Write to this connection from now on and abort the former one. Call `begin` or `resume` next."""
        former, self.sink = self.sink, sink
        if former is not None:
            former.abort()

    def detach(self, sink: EventSink) -> bool:
        """Detach a connection that has ended; False if another one has replaced it already."""
        if self.sink is not sink:
            return False
        self.sink = None
        return True

    def begin(self, sink: EventSink) -> None:
        """Write the priming event with an id to resume from, in revisions that define it (2025-11-25)."""
        if primes_streams(self._revision) and self.sink is sink:
            self.sent += 1
            _try_put(sink, sse.priming_event(str(EventId(self.name, self.sent)), RETRY_MS))

    def resume(self, sink: EventSink, after: int) -> None:
        """Write the buffered events with a higher number than `after`."""
        for event in self._replay.after(self._session, self, after):
            if not _try_put(sink, event):  # also if another connection has replaced it
                return

    # -- events -------------------------------------------------------------------------------------------

    async def send(self, data: bytes) -> bool:
        """Send one message and wait until the write buffer has room.

        Args:
            data: the message as JSON text.

        Returns:
            Whether a connection took it. It is buffered for replay in either case.
        """
        event = self._event(data)
        if self.sink is None:
            return False
        try:
            await self.sink.write(event)
        except ConnectionError:
            return False
        return True

    def put(self, data: bytes, *, answers: bool = False) -> bool:
        """Like `send`, without waiting.

        Args:
            answers: whether this is the response to the stream's request.
        """
        event = self._event(data, answers=answers)
        return self.sink is not None and _try_put(self.sink, event)

    def end(self) -> None:
        """Mark the stream as ended and release its connection, which may serve other requests. Idempotent."""
        self.is_ended = True
        self.sink = None
        if self._ended is not None:
            self._ended.set()

    async def wait_ended(self) -> None:
        """Wait until `end` is called."""
        if not self.is_ended:
            self._ended = self._ended or asyncio.Event()
            await self._ended.wait()

    def _event(self, data: bytes, *, answers: bool = False) -> bytes:
        """Encode the next event, and buffer it if the revision can resume streams."""
        self.sent += 1
        event = self._numbered(data)
        if numbers_events(self._revision):
            fits = len(event) <= MAX_SESSION_EVENT_BYTES or not answers
            kept = event if fits else self._numbered(self._too_large())
            self._replay.keep(self._session, self, self.sent, kept)
        return event

    def _numbered(self, data: bytes) -> bytes:
        identity = str(EventId(self.name, self.sent)) if numbers_events(self._revision) else None
        return sse.encode(sse.single_line(data), identity=identity)

    def _too_large(self) -> bytes:
        return lost_answer(self._request or b"null", "the response was too large to be kept for a reconnect")


def _try_put(sink: EventSink, data: bytes) -> bool:
    try:
        sink.put(data)
    except ConnectionError:
        return False
    return True


def lost_answer(request: bytes, why: str) -> bytes:
    """Build the JSON-RPC error (47112) that replaces a response no longer in the buffer."""
    return Refusal(Reason.ANSWER_LOST, why, delivered="unknown").as_error(request)
