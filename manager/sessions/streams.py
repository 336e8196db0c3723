"""The event streams of all sessions: server streams, and streams of requests."""

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
