"""All streams of legacy sessions: the standing ones, and those of requests that are or were answered."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator

from manager.routing.state.session_table import Session
from manager.sessions.event_ids import SERVER_STREAM, EventId, stream_name
from manager.sessions.replay import Replay
from manager.sessions.server_stream import ServerStream
from manager.sessions.stream import EventSink, Stream


class Streams:
    """The table of streams. A stream of a request is known until its events are too old to be asked for."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._epoch = secrets.token_urlsafe(4)  # so that no id means something to the next manager, too
        self._numbers = itertools.count(SERVER_STREAM + 1)
        self._replay = Replay(now)
        self._standing: dict[str, ServerStream] = {}
        self._answering: dict[str, dict[str, Stream]] = {}

    def __len__(self) -> int:
        """How many standing streams somebody listens to."""
        return sum(standing.is_open for standing in self._standing.values())

    # -- standing streams ---------------------------------------------------------------------------------

    def server_stream(self, session: Session) -> ServerStream:
        """The session's standing stream, whether somebody listens or not."""
        known = self._standing.get(session.id)
        if known is None:
            name = stream_name(self._epoch, SERVER_STREAM)
            known = ServerStream(Stream(session.id, name, session.revision, self._replay))
            self._standing[session.id] = known
        return known

    def open_server_stream(self, session: Session) -> ServerStream | None:
        """The session's standing stream if somebody listens."""
        standing = self._standing.get(session.id)
        return standing if standing is not None and standing.is_open else None

    def leave(self, session: Session, sink: EventSink) -> bool:
        """A connection of the standing stream has ended; False where it had lost the stream before."""
        standing = self._standing.get(session.id)
        return standing is not None and standing.stream.leave(sink)

    # -- streams of requests ------------------------------------------------------------------------------

    def open_request_stream(self, session: Session, request: bytes) -> Stream:
        """A stream for the answer to a request, whose id is JSON text."""
        name = stream_name(self._epoch, next(self._numbers), request)
        stream = Stream(session.id, name, session.revision, self._replay, request)
        self._answering.setdefault(session.id, {})[name] = stream
        return stream

    def request_stream(self, session: Session, event: EventId) -> Stream | None:
        """The stream of a request that an event belongs to; None where what followed is not here any more."""
        stream = self._answering.get(session.id, {}).get(event.stream)
        if stream is not None and stream.is_ended and event.event < stream.sent == stream.lost:
            return None
        return stream

    # -- ends ---------------------------------------------------------------------------------------------

    def forget(self, session: Session) -> None:
        """The session is over: its streams end, and what they said is dropped."""
        standing = self._standing.pop(session.id, None)
        if standing is not None:
            standing.close()
        for stream in self._answering.pop(session.id, {}).values():
            stream.end()
        self._replay.forget(session.id)

    def expire(self) -> None:
        """Let go of events that are too old, and of streams that have nothing left to tell."""
        self._replay.expire()
        for session, stream in list(self._ended()):
            streams = self._answering[session]
            del streams[stream.name]
            if not streams:
                del self._answering[session]
        for session in [one for one, standing in self._standing.items() if standing.is_blank]:
            del self._standing[session]

    def close_all(self) -> None:
        """End every standing stream; its session goes on with the next manager."""
        for standing in self._standing.values():
            standing.close()

    def _ended(self) -> Iterator[tuple[str, Stream]]:
        for session, streams in self._answering.items():
            yield from ((session, one) for one in streams.values() if one.is_ended and not one.kept)
