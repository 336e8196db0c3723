"""One stream of a legacy session: what is sent is numbered, kept for a while, and written to its connection.

A stream outlives its connections: one that breaks ends no call, and a client that comes back goes on
where it was. What a connection is in HTTP is `http/event_response.py`; all streams are `streams.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from manager.sessions.event_ids import EventId
from manager.sessions.replay import MAX_BYTES, Replay
from protocol import sse
from protocol.errors import Reason, Refusal
from protocol.versions import numbers_events, primes_streams

RETRY_MS: Final = 3000
"""When a client whose connection broke shall come back. Mostly the manager has ended, and the next one has to
start first; the official SDKs try once or twice, and then never again."""


class EventSink(Protocol):
    """A connection that a stream is written to."""

    @property
    def is_full(self) -> bool:
        """Whether the client does not keep up."""

    def put(self, data: bytes) -> object:
        """Write whole events.

        Raises:
            ConnectionError: the client is gone.
        """

    async def write(self, data: bytes) -> None:
        """As `put`; returns when the client keeps up."""

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call this when the client keeps up again, or is gone."""

    def close(self) -> None:
        """End it in good order. Raises as `put` does."""

    def abort(self) -> None:
        """Cut it off: the stream goes on elsewhere."""


class Stream:
    """One stream. What is sent is written at once, and so in order; who sends much waits for the client.

    Attributes:
        name: begins the ids of its events.
        sent: the number of its last event.
        sink: who listens now. One that broke may stay until the next takes its place.
        kept, lost: see `replay.Origin`.
        is_ended: whether nothing will follow.
    """

    __slots__ = (
        "_over",
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
        self._over: asyncio.Event | None = None  # there while somebody waits for the end

    # -- connections --------------------------------------------------------------------------------------

    def claim(self, sink: EventSink) -> None:
        """Have this connection from now on; the former one is cut off. `begin` or `resume` follows."""
        former, self.sink = self.sink, sink
        if former is not None:
            former.abort()

    def leave(self, sink: EventSink) -> bool:
        """This connection has ended; False where another one had taken its place before."""
        if self.sink is not sink:
            return False
        self.sink = None
        return True

    def begin(self, sink: EventSink) -> None:
        """Write what a new stream begins with: where the revision knows it, an id to come back with."""
        if primes_streams(self._revision) and self.sink is sink:
            self.sent += 1
            _is_put(sink, sse.priming_event(str(EventId(self.name, self.sent)), RETRY_MS))

    def resume(self, sink: EventSink, after: int) -> None:
        """Write what followed the event with this number, as far as it is still here."""
        for event in self._replay.after(self._session, self, after):
            if not _is_put(sink, event):  # also where another one has taken its place
                return

    # -- what is said -------------------------------------------------------------------------------------

    async def send(self, data: bytes, *, answers: bool = False) -> bool:
        """Send one message, and wait until the client keeps up.

        Args:
            data: the message's JSON text.
            answers: whether it is the response that the stream exists for.

        Returns:
            Whether there was a connection that took it. It is kept in either case.
        """
        event = self._event(data, answers=answers)
        if self.sink is None:
            return False
        try:
            await self.sink.write(event)
        except ConnectionError:
            return False
        return True

    def put(self, data: bytes) -> bool:
        """As `send`, but nobody waits."""
        event = self._event(data)
        return self.sink is not None and _is_put(self.sink, event)

    def end(self) -> None:
        """Nothing follows. Its connection is let go: it may serve other requests from now on. Idempotent."""
        self.is_ended = True
        self.sink = None
        if self._over is not None:
            self._over.set()

    async def over(self) -> None:
        """Wait until nothing follows."""
        if not self.is_ended:
            self._over = self._over or asyncio.Event()
            await self._over.wait()

    def _event(self, data: bytes, *, answers: bool = False) -> bytes:
        """The next event, which is kept where it can be asked for."""
        self.sent += 1
        event = self._numbered(data)
        if numbers_events(self._revision):
            kept = event if len(event) <= MAX_BYTES or not answers else self._numbered(self._too_large())
            self._replay.keep(self._session, self, self.sent, kept)
        return event

    def _numbered(self, data: bytes) -> bytes:
        identity = str(EventId(self.name, self.sent)) if numbers_events(self._revision) else None
        return sse.encode(sse.single_line(data), identity=identity)

    def _too_large(self) -> bytes:
        return lost_answer(self._request or b"null", "the answer was too large to be kept for later")


def _is_put(sink: EventSink, data: bytes) -> bool:
    try:
        sink.put(data)
    except ConnectionError:
        return False
    return True


def lost_answer(request: bytes, why: str) -> bytes:
    """The error that stands for a response which is no longer here (47112)."""
    return Refusal(Reason.ANSWER_LOST, why, delivered="unknown").as_error(request)
