"""Keeps recent events, within fixed limits, for clients that resume a stream with `Last-Event-ID`.

The buffer is bounded per session, over all sessions, and by age. An event id (MCP 2025-11-25, Transports:
Resumability and Redelivery) names its session's stream, the event's number and the request that the stream
answers:

    <epoch>.<stream>[.<request id, base64url>]-<event>      e.g. `k3vQ.4.Nw-2`

With the request id in it, even a restarted manager can tell the client that this request's response is lost.
Clients can send any id; `streams.py` looks up whether the stream exists.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from manager.configuration.budgets import MAX_ALL_EVENT_BYTES, MAX_SESSION_EVENT_BYTES, MAX_SESSION_EVENTS

MAX_AGE_S: Final = 300.0
"""Seconds for which events are kept. Clients reconnect within seconds. A machine that slept longer than this
lists anew."""


class Origin(Protocol):
    """The stream that an event belongs to.

    Attributes:
        kept: number of its events in the buffer.
        lost: number of its newest event that has left the buffer, 0 for none.
    """

    kept: int
    lost: int


class _Event(msgspec.Struct, frozen=True):
    origin: Origin
    number: int
    event: bytes
    at: float


class _SessionBuffer(msgspec.Struct):
    """The events of one session, oldest first."""

    events: deque[_Event] = msgspec.field(default_factory=deque)
    size: int = 0


class Replay:
    """Buffers the events of all sessions. `now` returns monotonic seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._by_session: OrderedDict[str, _SessionBuffer] = OrderedDict()  # least recently written first
        self.size = 0

    def keep(self, session: str, origin: Origin, number: int, event: bytes) -> None:
        """Buffer an event, unless it exceeds the session's bytes, and drop the oldest beyond the limits."""
        if len(event) > MAX_SESSION_EVENT_BYTES:
            origin.lost = number
            return
        buffer = self._by_session.setdefault(session, _SessionBuffer())
        self._by_session.move_to_end(session)
        buffer.events.append(_Event(origin, number, event, self._now()))
        origin.kept += 1
        buffer.size += len(event)
        self.size += len(event)
        while len(buffer.events) > MAX_SESSION_EVENTS or buffer.size > MAX_SESSION_EVENT_BYTES:
            self._drop_oldest(buffer)
        while self.size > MAX_ALL_EVENT_BYTES:
            least_recent, buffer = next(iter(self._by_session.items()))
            self._drop_oldest(buffer)
            if not buffer.events:
                del self._by_session[least_recent]

    def after(self, session: str, origin: Origin, number: int) -> list[bytes]:
        """Return the buffered events of a stream with a higher number than this."""
        buffer = self._by_session.get(session)
        if buffer is None:
            return []
        return [one.event for one in buffer.events if one.origin is origin and one.number > number]

    def forget(self, session: str) -> None:
        """Drop all events of a session that has ended."""
        buffer = self._by_session.pop(session, None)
        while buffer is not None and buffer.events:
            self._drop_oldest(buffer)

    def expire(self) -> None:
        """Drop events older than `MAX_AGE_S`."""
        oldest = self._now() - MAX_AGE_S
        for buffer in self._by_session.values():
            while buffer.events and buffer.events[0].at <= oldest:
                self._drop_oldest(buffer)
        for session in [one for one, buffer in self._by_session.items() if not buffer.events]:
            del self._by_session[session]

    def _drop_oldest(self, buffer: _SessionBuffer) -> None:
        dropped = buffer.events.popleft()
        dropped.origin.kept -= 1
        dropped.origin.lost = dropped.number
        buffer.size -= len(dropped.event)
        self.size -= len(dropped.event)


MAX_REQUEST: Final = 64
"""Bytes of JSON text of the longest request id that is written into event ids."""
SERVER_STREAM: Final = 0
"""Stream number of a session's server stream."""
_ID: Final = re.compile(r"[\w-]{1,32}\.\d{1,15}(?:\.[\w-]{1,88})?-(?P<event>\d{1,15})", re.ASCII)


class EventId(msgspec.Struct, frozen=True):
    """One event of one stream. `str()` gives the id that is sent."""

    stream: str
    event: int

    def __str__(self) -> str:
        return f"{self.stream}-{self.event}"

    @property
    def is_server_stream(self) -> bool:
        """Whether the event belongs to a server stream, of this manager or an earlier one."""
        return self.stream.split(".")[1:] == [str(SERVER_STREAM)]

    @property
    def request(self) -> bytes | None:
        """Id of the request that the stream answers, as JSON text; None for a server stream or a long id."""
        parts = self.stream.split(".")
        return _request(parts[2]) if len(parts) == 3 else None


def stream_name(epoch: str, number: int, request: bytes | None = None) -> str:
    """Build a stream's name, the prefix of its event ids.

    Args:
        epoch: distinguishes this manager process from earlier ones.
        number: unique in the session while this manager runs; `SERVER_STREAM` for the server stream.
        request: id of the request that the stream answers, as JSON text.
    """
    name = f"{epoch}.{number}"
    if request is None or len(request) > MAX_REQUEST:
        return name
    return f"{name}.{base64.urlsafe_b64encode(request).decode().rstrip('=')}"


def parse_event_id(text: str) -> EventId | None:
    """Parse a `Last-Event-ID`; None if this program did not write it."""
    found = _ID.fullmatch(text)
    return None if found is None else EventId(text[: found.start("event") - 1], int(found["event"]))


def _request(text: str) -> bytes | None:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        jsonrpc.id_key(raw)
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return raw if jsonrpc.is_valid_id(raw) else None
