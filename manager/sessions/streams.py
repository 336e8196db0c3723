"""The event streams of sessions: those of requests, and the server stream of each session.

A stream numbers its events, writes them to a connection and hands them to replay. It outlives its
connections: a broken connection ends no call, and a client that reconnects with `Last-Event-ID` continues
where it stopped. The connection itself is `http/event_response.py`.

The server stream (GET; MCP 2025-11-25, Transports: Listening for Messages from the Server) has the
notifications that the manager sends on its own. While the client is disconnected or reads too slowly, only
the newest notification of each kind waits, so that memory per session is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from lm_tools_bridge.protocol import jsonrpc, names, sse
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.names import numbers_events, primes_streams
from manager.configuration.budgets import MAX_SESSION_EVENT_BYTES
from manager.routing.state.session_table import Session
from manager.sessions.replay import SERVER_STREAM, EventId, Replay, stream_name

MAX_PENDING: Final = 256
"""Most notifications that wait; beyond that, the oldest about a resource is dropped."""
_CHANGED: Final = {method: jsonrpc.notification(method) for method in names.LISTS_CHANGED}


class ServerStream:
    """The one server stream of a session, with or without a connection. It needs no task of its own."""

    __slots__ = ("_is_scheduled", "_pending", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._pending: dict[str, bytes] | None = None  # mostly none
        self._is_scheduled = False  # whether a delivery is scheduled

    @property
    def is_open(self) -> bool:
        """Whether a connection is attached."""
        return self.stream.sink is not None

    @property
    def is_unused(self) -> bool:
        """Whether it can be dropped without losing anything."""
        return not (self.is_open or self._pending or self.stream.sent)

    def notify(self, key: str, message: bytes) -> None:
        """Send a notification, now or on the next connection. A newer one with the same key replaces it."""
        pending = self._pending = self._pending or {}
        pending[key] = message
        if len(pending) > MAX_PENDING:
            del pending[next(one for one in pending if one not in _CHANGED)]
        self._schedule()

    def notify_lists_changed(self, methods: Iterable[str] = names.LISTS_CHANGED) -> None:
        """Send `list_changed` notifications, by default for all lists."""
        for method in methods:
            self.notify(method, _CHANGED[method])

    def resume_point(self, last: EventId | None) -> int | None:
        """The number of the client's last event if all later ones are still buffered, else None."""
        if last is None or last.stream != self.stream.name:
            return None
        return last.event if self.stream.lost <= last.event <= self.stream.sent else None

    def begin(self, sink: EventSink, after: int | None = None) -> None:
        """Start writing to the attached connection.

        Args:
            after: number of the last event that the client has received, None for a new stream.
        """
        if after is None:
            self.stream.begin(sink)
        else:
            self.stream.resume(sink, after)
        self._schedule()

    def close(self) -> None:
        """Deliver what waits and end the connection, because the session or the manager ends."""
        sink = self.stream.sink
        self._deliver()
        if sink is not None and self.stream.detach(sink):
            with contextlib.suppress(ConnectionError):
                sink.close()

    def _schedule(self) -> None:
        """Deliver in the next loop iteration, together with what is added until then."""
        if self._pending and self.is_open and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        """Write the waiting notifications; those that no connection took keep waiting."""
        self._is_scheduled = False
        pending = self._pending or {}
        for key, message in list(pending.items()):
            sink = self.stream.sink
            if sink is None:
                return
            if sink.is_full:
                self._is_scheduled = True
                sink.when_writable(self._deliver)
                return
            if not self.stream.put(message):
                return
            del pending[key]
        self._pending = None


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


class Streams:
    """Opens and finds streams. An ended request stream is kept while the replay buffer has its events."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._epoch = secrets.token_urlsafe(4)  # no event id is valid for another manager process
        self._numbers = itertools.count(SERVER_STREAM + 1)
        self._replay = Replay(now)
        self._server_streams: dict[str, ServerStream] = {}
        self._request_streams: dict[str, dict[str, Stream]] = {}

    def __len__(self) -> int:
        """How many server streams are open."""
        return sum(server_stream.is_open for server_stream in self._server_streams.values())

    # -- server streams -----------------------------------------------------------------------------------

    def server_stream(self, session: Session) -> ServerStream:
        """The session's server stream, with or without a connection."""
        known = self._server_streams.get(session.id)
        if known is None:
            name = stream_name(self._epoch, SERVER_STREAM)
            known = ServerStream(Stream(session.id, name, session.revision, self._replay))
            self._server_streams[session.id] = known
        return known

    def open_server_stream(self, session: Session) -> ServerStream | None:
        """The session's server stream if it has a connection, else None."""
        server_stream = self._server_streams.get(session.id)
        return server_stream if server_stream is not None and server_stream.is_open else None

    def detach(self, session: Session, sink: EventSink) -> bool:
        """Detach a server stream's connection that has ended; False if another one replaced it."""
        server_stream = self._server_streams.get(session.id)
        return server_stream is not None and server_stream.stream.detach(sink)

    # -- request streams ----------------------------------------------------------------------------------

    def open_request_stream(self, session: Session, request: bytes) -> Stream:
        """Open a stream for the response to a request; `request` is its id as JSON text."""
        name = stream_name(self._epoch, next(self._numbers), request)
        stream = Stream(session.id, name, session.revision, self._replay, request)
        self._request_streams.setdefault(session.id, {})[name] = stream
        return stream

    def request_stream(self, session: Session, event: EventId) -> Stream | None:
        """Find the request stream of an event; None if the events after it have left the replay buffer."""
        stream = self._request_streams.get(session.id, {}).get(event.stream)
        if stream is not None and stream.is_ended and event.event < stream.sent == stream.lost:
            return None
        return stream

    # -- ends ---------------------------------------------------------------------------------------------

    def forget(self, session: Session) -> None:
        """End all streams of a session that has ended, and drop its buffered events."""
        server_stream = self._server_streams.pop(session.id, None)
        if server_stream is not None:
            server_stream.close()
        for stream in self._request_streams.pop(session.id, {}).values():
            stream.end()
        self._replay.forget(session.id)

    def expire(self) -> None:
        """Drop old events, ended request streams without events, and unused server streams."""
        self._replay.expire()
        for session, stream in list(self._ended()):
            streams = self._request_streams[session]
            del streams[stream.name]
            if not streams:
                del self._request_streams[session]
        for session in [
            one for one, server_stream in self._server_streams.items() if server_stream.is_unused
        ]:
            del self._server_streams[session]

    def close_all(self) -> None:
        """End every server stream. The sessions continue with the next manager."""
        for server_stream in self._server_streams.values():
            server_stream.close()

    def _ended(self) -> Iterator[tuple[str, Stream]]:
        for session, streams in self._request_streams.items():
            yield from ((session, one) for one in streams.values() if one.is_ended and not one.kept)
