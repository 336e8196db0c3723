"""Server-sent events: an encoder, and an incremental decoder that takes bytes as they come.

Only what MCP uses: `event`, `data`, `id`, `retry` and comments. No I/O; the decoder never blocks and
never grows beyond its limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

KEEP_ALIVE: Final = b": keep-alive\n\n"
DEFAULT_LIMIT: Final = 32 * 1024 * 1024


class EventTooLarge(ValueError):
    """An event, or an unfinished line, is larger than the decoder's limit."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `data` lines are joined by newlines."""

    data: bytes
    event: str = "message"
    id: str | None = None


def encode(data: bytes, *, event: str = "message", identity: str | None = None) -> bytes:
    """One event with one line of JSON in it.

    Raises:
        ValueError: the data holds a raw line break, which would split the event.
    """
    if b"\n" in data or b"\r" in data:
        raise ValueError("event data must be a single line of JSON")
    head = f"id: {identity}\n" if identity is not None else ""
    return f"{head}event: {event}\ndata: ".encode() + data + b"\n\n"


def prime(identity: str, retry_ms: int) -> bytes:
    """An event without data, which gives a client an id to come back with, and the time to wait before it."""
    return f"id: {identity}\nretry: {retry_ms}\ndata: \n\n".encode()


def single_line(body: bytes) -> bytes:
    """A JSON text on one line. Line breaks outside strings are white space, and inside strings illegal."""
    if b"\n" not in body and b"\r" not in body:
        return body
    return body.replace(b"\r", b" ").replace(b"\n", b" ")


class Decoder:
    """Bytes in, events out. Accepts LF, CR LF and CR line ends, cut anywhere."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._searched = 0
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._id: str | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes and return the events they complete.

        Raises:
            EventTooLarge: an event grows beyond the limit.
        """
        self._buffer += chunk
        events: list[Event] = []
        while (line := self._next_line()) is not None:
            event = self._line(line)
            if event is not None:
                events.append(event)
        if self._size + len(self._buffer) > self._limit:
            raise EventTooLarge(f"an event is larger than {self._limit} bytes")
        return events

    def _next_line(self) -> bytes | None:
        buffer = self._buffer
        newline = buffer.find(b"\n", self._searched)
        carriage = buffer.find(b"\r", self._searched, newline if newline >= 0 else len(buffer))
        if carriage >= 0:
            if carriage == len(buffer) - 1:
                self._searched = carriage
                return None  # the LF of a CR LF may still come
            end, skip = carriage, 2 if buffer[carriage + 1 : carriage + 2] == b"\n" else 1
        elif newline >= 0:
            end, skip = newline, 1
        else:
            self._searched = len(buffer)
            return None
        line = bytes(buffer[:end])
        del buffer[: end + skip]
        self._searched = 0
        return line

    def _line(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1  # an empty line costs memory, too
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        return None

    def _dispatch(self) -> Event | None:
        data, event = self._data, self._event
        self._data, self._event, self._size = [], "", 0
        if not data:
            return None
        return Event(b"\n".join(data), event or "message", self._id)
