"""Forwards the only event of a stream to a client without parsing it: as an event, or as JSON.

A comment before the event says which bytes to remove for a session client
(`protocol/internal/result_trim.py`), and that no other event follows. The length is not known in advance.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Final

from manager.forwarding.answer import COLLECTED, InterruptedAnswerError, too_large
from manager.forwarding.messages import unusable
from manager.http.event_response import STREAM_FIELDS
from manager.http.request import HttpRequest
from manager.relay.body_sink import JOINED, BodySink
from manager.routing.json.forwardable_result import (
    RESULT_BEGIN,
    RESULT_END,
    for_session_client,
    is_forwardable,
)
from manager.routing.request_heads.request_metadata import EVENTS, JSON
from manager.upstream.response import Piece
from protocol import sse
from protocol.internal.result_trim import ResultTrim

_END: Final = RESULT_END + sse.EVENT_END


class LargeEvent(BodySink):
    """Base class of both sinks: buffers up to `COLLECTED` bytes, then writes the event as it arrives.

    Nothing is written of a buffered stream that is not as its comment announced.

    Args:
        http_request: the client's request.
        fields: header fields of the response.
        identity: the id of the call, and so of its response, as JSON text.
        trim: the bytes to remove for a session client, from the comment.
        limit: largest stream in bytes.
        now: a monotonic clock, in seconds.
    """

    __slots__ = ("_fields", "_identity", "_is_done", "_limit", "_tail", "_trim")

    def __init__(
        self,
        http_request: HttpRequest,
        fields: Mapping[str, str],
        *,
        identity: bytes,
        trim: ResultTrim,
        limit: int,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(http_request, now)
        self.buffered = []
        self._fields = fields
        self._identity = identity
        self._trim = trim
        self._limit = limit
        self._is_done = False
        self._tail = b""  # the last bytes that arrived

    def put(self, data: Piece) -> bool:
        """Process a piece; return whether the client can take more. Bytes after the event are dropped."""
        if self._is_done:
            return True
        self.received += len(data)
        if self.received > self._limit:
            raise InterruptedAnswerError(too_large(self._limit))
        has_room = self._write(data) if self.buffered is None else self._buffer(data, self.buffered)
        if not self._tail.endswith(_END) or not self._complete():
            return has_room
        self._is_done = True
        if self.on_complete is not None:
            self.on_complete()
        return True

    def finish(self) -> None:
        """Check that the event was complete, else raise InterruptedAnswerError."""
        if not self._is_done:
            raise InterruptedAnswerError(unusable(200))

    def _buffer(self, data: Piece, held: list[Piece]) -> bool:
        held.append(bytes(data))
        self._tail = (self._tail + data[-len(_END) :])[-len(_END) :]
        if self.received <= COLLECTED:
            return True
        self.buffered, self._tail = None, b""
        return self._write(self._begin(b"".join(held)))

    def _complete(self) -> bool:
        """Write the end, or the whole response; False if it is not as announced."""
        if self.buffered is None:
            self._finish()
            return True
        stream = b"".join(self.buffered)
        event = sse.single_event(stream, 0, len(stream))
        return event is not None and self._respond(stream, event)

    @abstractmethod
    def _respond(self, stream: bytes, event: sse.SingleEvent) -> bool:
        """Write the response from a buffered stream; False if it is not as announced."""

    @abstractmethod
    def _begin(self, stream: bytes) -> Piece:
        """Write the head and the first buffered bytes; return the rest of them."""

    @abstractmethod
    def _write(self, data: Piece) -> bool:
        """Write a piece and update `_tail`; return whether the client can take more."""

    @abstractmethod
    def _finish(self) -> None:
        """Write the end of the response."""


class EventPassedThrough(LargeEvent):
    """Writes the stream unchanged, for a stateless client that accepts event streams."""

    __slots__ = ()

    def _respond(self, stream: bytes, event: sse.SingleEvent) -> bool:
        if not is_forwardable(stream, event.start, event.end, self._identity, self._trim):
            return False
        self._start(stream)
        self._http_request.finish()
        return True

    def _begin(self, stream: bytes) -> Piece:
        self._start(stream[:JOINED])
        return memoryview(stream)[JOINED:]

    def _start(self, begin: bytes) -> None:
        self._http_request.start(200, {**self._fields, **STREAM_FIELDS}, EVENTS, None, begin)

    def _write(self, data: Piece) -> bool:
        self._tail = (self._tail + data[-len(_END) :])[-len(_END) :]
        return self._http_request.put(data)

    def _finish(self) -> None:
        self._http_request.finish()


class EventAsJson(LargeEvent):
    """Writes the event's data as JSON, without the trimmed bytes.

    The last `trim.last + len(_END)` bytes are withheld, as they may be the end.
    """

    __slots__ = ()

    def _respond(self, stream: bytes, event: sse.SingleEvent) -> bool:
        body = for_session_client(stream, event.start, event.end, self._identity, self._trim)
        if body is not None:
            self._http_request.respond(200, body, self._fields)
        return body is not None

    def _begin(self, stream: bytes) -> Piece:
        begin = RESULT_BEGIN % self._identity
        skipped = stream.index(begin) + len(begin) + self._trim.first
        rest = memoryview(stream)[skipped:]
        self._http_request.start(200, self._fields, JSON, None, b"".join((begin, rest[:JOINED])))
        return rest[JOINED:]

    def _write(self, data: Piece) -> bool:
        back = self._trim.last + len(_END)
        if len(data) > back:
            ready: tuple[Piece, ...] = (self._tail, data[:-back])
            self._tail = bytes(data[-back:])
        else:
            text = self._tail + data
            ready = (text[:-back],)
            self._tail = text[-back:]
        return self._http_request.put(*ready) if any(ready) else not self._http_request.is_full

    def _finish(self) -> None:
        self._http_request.finish(RESULT_END)
