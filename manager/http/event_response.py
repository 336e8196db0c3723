"""An HTTP answer that is an event stream: opened once, never silent for long, ended once.

It knows bytes only; what they say, and to whom, is decided by those who write (`relay/writer.py`,
`standing.py`). It needs no task, and no timer of its own (`keep_alives.py`): there may be thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from manager.http.keep_alives import Heartbeats
from manager.http.request import Incoming
from manager.routing.request_heads.request_metadata import EVENTS
from protocol import sse

STREAM_FIELDS: Final = {"X-Accel-Buffering": "no"}
"""What the head of such an answer says beside what all answers say."""


class EventResponse:
    """One such answer.

    Attributes:
        is_amid: whether a part of an event was written whose rest follows; else comments may come in between.
    """

    __slots__ = ("_incoming", "is_amid")

    def __init__(self, incoming: Incoming) -> None:
        self.is_amid = False
        self._incoming = incoming

    def open(self, headers: Mapping[str, str]) -> None:
        """Send the head, with these fields in it.

        Raises:
            ConnectionError: the client is gone; so do `write`, `put` and `close`.
        """
        self._incoming.start(200, {**headers, **STREAM_FIELDS}, EVENTS)
        self.heartbeats.note(self)

    @property
    def heartbeats(self) -> Heartbeats:
        """What fills its silences."""
        return self._incoming.heartbeats

    @property
    def is_full(self) -> bool:
        """Whether the client does not keep up."""
        return self._incoming.is_full

    async def write(self, data: bytes) -> None:
        """Write whole events; returns when the client keeps up."""
        self.put(data)
        await self._incoming.room()

    def put(self, data: bytes) -> bool:
        """Write some of an event, or events; whether the client keeps up."""
        has_room = self._incoming.put(data)
        self.heartbeats.note(self)
        return has_room

    def when_room(self, call: Callable[[], None]) -> None:
        """Call this when the client keeps up again, or is gone."""
        self._incoming.when_room(call)

    def close(self) -> None:
        """End it."""
        self.forget()
        self._incoming.finish()

    def abort(self) -> None:
        """Cut the connection off."""
        self.forget()
        self._incoming.abort()

    def forget(self) -> None:
        """Its silence is nobody's concern any more."""
        self.heartbeats.forget(self)

    def fill(self) -> None:
        """Break the silence. A client that does not read what it has got gets no more."""
        if self._incoming.is_gone:
            self.forget()
        elif not (self.is_amid or self.is_full):
            self._incoming.put(sse.KEEP_ALIVE)
