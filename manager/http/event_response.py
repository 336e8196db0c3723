"""A response that is an event stream, with keep-alive comments or events while it is silent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from lm_tools_bridge.protocol import sse
from manager.http.open_streams import KeepAlives
from manager.http.request import HttpRequest
from manager.routing.request_metadata import EVENTS

STREAM_FIELDS: Final = {"X-Accel-Buffering": "no"}
"""Header fields of event streams: proxies must not buffer them."""


class KeepAliveEvents(Protocol):
    """Makes the events that keep a stream alive, for clients which do not count comments."""

    def note_written(self, data: bytes) -> bool:
        """Note what was written to the stream; return whether it keeps the client's patience."""

    def event(self) -> bytes:
        """The next event."""


class EventResponse:
    """One event stream; it needs no task and no timer of its own, because there may be thousands.

    Args:
        http_request: the client's request.
        keep_alive: makes the events that are sent while the stream is silent; None for comments.

    Attributes:
        is_inside_event: whether the end of an event is still to be written, so that nothing else may be sent.
    """

    __slots__ = ("_http_request", "_keep_alive", "is_inside_event")

    def __init__(self, http_request: HttpRequest, keep_alive: KeepAliveEvents | None = None) -> None:
        self.is_inside_event = False
        self._http_request = http_request
        self._keep_alive = keep_alive

    def open(self, headers: Mapping[str, str]) -> None:
        """Send the head, with these header fields.

        Raises:
            ConnectionError: the client has disconnected; also raised by `write`, `put` and `close`.
        """
        self._http_request.start(200, {**headers, **STREAM_FIELDS}, EVENTS)
        self.keep_alives.note_written(self)

    @property
    def keep_alives(self) -> KeepAlives:
        """Sends the comments."""
        return self._http_request.keep_alives

    @property
    def is_full(self) -> bool:
        """Whether the transport's write buffer is above its high-water mark."""
        return self._http_request.is_full

    async def write(self, data: bytes) -> None:
        """Write whole events; return when the client keeps up."""
        self.put(data)
        await self._http_request.drain()

    def put(self, data: bytes) -> bool:
        """Write events or a part of one; return whether more may be written at once."""
        is_writable = self._http_request.put(data)
        if self._keep_alive is None or self._keep_alive.note_written(data):
            self.keep_alives.note_written(self)
        return is_writable

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call `call` when the client keeps up again or has disconnected."""
        self._http_request.when_writable(call)

    def close(self) -> None:
        """End the stream."""
        self.stop_keep_alives()
        self._http_request.finish()

    def abort(self) -> None:
        """Close the connection without flushing."""
        self.stop_keep_alives()
        self._http_request.abort()

    def stop_keep_alives(self) -> None:
        """Send no more comments. Idempotent."""
        self.keep_alives.remove(self)

    def send_keep_alive(self) -> None:
        """Send an event or a comment, unless the client does not keep up or an event is incomplete."""
        if self._http_request.is_disconnected:
            self.stop_keep_alives()
        elif not (self.is_inside_event or self.is_full):
            self._http_request.put(sse.KEEP_ALIVE if self._keep_alive is None else self._keep_alive.event())
