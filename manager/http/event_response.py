"""An HTTP answer that is an event stream: opened once, never silent for long, ended once.

It knows bytes only; what they say, and to whom, is decided by those who write (`relay/writer.py`,
`standing.py`). It needs no task, and no timer of its own (`keep_alives.py`): there may be thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from manager.http.keep_alives import KeepAlives
from manager.http.request import HttpRequest
from manager.routing.request_heads.request_metadata import EVENTS
from protocol import sse

STREAM_FIELDS: Final = {"X-Accel-Buffering": "no"}
"""What the head of such an answer says beside what all answers say."""


class EventResponse:
    """One such answer.

    Attributes:
        is_amid: whether a part of an event was written whose rest follows; else comments may come in between.
    """

    __slots__ = ("_http_request", "is_amid")

    def __init__(self, http_request: HttpRequest) -> None:
        self.is_amid = False
        self._http_request = http_request

    def open(self, headers: Mapping[str, str]) -> None:
        """Send the head, with these fields in it.

        Raises:
            ConnectionError: the client is gone; so do `write`, `put` and `close`.
        """
        self._http_request.start(200, {**headers, **STREAM_FIELDS}, EVENTS)
        self.keep_alives.note(self)

    @property
    def keep_alives(self) -> KeepAlives:
        """What fills its silences."""
        return self._http_request.keep_alives

    @property
    def is_full(self) -> bool:
        """Whether the client does not keep up."""
        return self._http_request.is_full

    async def write(self, data: bytes) -> None:
        """Write whole events; returns when the client keeps up."""
        self.put(data)
        await self._http_request.drain()

    def put(self, data: bytes) -> bool:
        """Write some of an event, or events; whether the client keeps up."""
        has_room = self._http_request.put(data)
        self.keep_alives.note(self)
        return has_room

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call this when the client keeps up again, or is gone."""
        self._http_request.when_writable(call)

    def close(self) -> None:
        """End it."""
        self.forget()
        self._http_request.finish()

    def abort(self) -> None:
        """Cut the connection off."""
        self.forget()
        self._http_request.abort()

    def forget(self) -> None:
        """Its silence is nobody's concern any more."""
        self.keep_alives.forget(self)

    def fill(self) -> None:
        """Break the silence. A client that does not read what it has got gets no more."""
        if self._http_request.is_disconnected:
            self.forget()
        elif not (self.is_amid or self.is_full):
            self._http_request.put(sse.KEEP_ALIVE)
