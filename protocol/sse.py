"""Server-sent events: an encoder, and an incremental decoder that takes bytes as they come.

Only what MCP uses: `event`, `data`, `id`, `retry` and comments. No I/O; the decoder never blocks and
never grows beyond its limit.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Final, NamedTuple

KEEP_ALIVE: Final = b": keep-alive\n\n"
DEFAULT_LIMIT: Final = 32 * 1024 * 1024


class EventTooLarge(ValueError):
    """An event, or an unfinished line, is larger than the decoder's limit."""


_LONE: Final = re.compile(rb"(?::([^\r\n]{0,256})\n)?(?:event: message\n)?data: ")
EVENT_END: Final = b"\n\n"


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `data` lines are joined by newlines."""

    data: bytes
    event: str = "message"
    id: str | None = None


class SingleEvent(NamedTuple):
    """Where the data of an event begin and end, and the text of the comment before them, if there is one."""

    start: int
    end: int
    comment: bytes | None


def encode(
    data: bytes, *, event: str = "message", identity: str | None = None, comment: str | None = None
) -> bytes:
    """One event with one line of JSON in it.

    Args:
        comment: a text on one line that the event begins with; clients do not see it.

    Raises:
        ValueError: the data holds a raw line break, which would split the event.
    """
    if b"\n" in data or b"\r" in data:
        raise ValueError("event data must be a single line of JSON")
    head = f"id: {identity}\n" if identity is not None else ""
    said = f": {comment}\n" if comment is not None else ""
    return f"{said}{head}event: {event}\ndata: ".encode() + data + b"\n\n"


def priming_event(identity: str, retry_ms: int) -> bytes:
    """An event without data, which gives a client an id to come back with, and the time to wait before it."""
    return f"id: {identity}\nretry: {retry_ms}\ndata: \n\n".encode()


def single_line(body: bytes) -> bytes:
    """A JSON text on one line. Line breaks outside strings are white space, and inside strings illegal."""
    if b"\n" not in body and b"\r" not in body:
        return body
    return body.replace(b"\r", b" ").replace(b"\n", b" ")


def single_event(stream: bytes, start: int, end: int) -> SingleEvent | None:
    """Of a part of a stream that is one event on one line, written as most write it; None for others."""
    begun = single_event_start(stream, start, end)
    if begun is None or not stream.endswith(EVENT_END, begun.start, end):
        return None
    last = end - len(EVENT_END)
    return SingleEvent(begun.start, last, begun.comment) if is_one_line(stream, begun.start, last) else None


def single_event_start(stream: bytes, start: int = 0, end: int = sys.maxsize) -> SingleEvent | None:
    """As `single_event`, of a part that need not have come to its end: that is where the data end then."""
    found = _LONE.match(stream, start, end)
    return None if found is None else SingleEvent(found.end(), min(end, len(stream)), found[1])


def is_one_line(text: bytes, start: int, end: int) -> bool:
    """Whether no line ends in this part of a text."""
    return text.find(b"\n", start, end) < 0 and text.find(b"\r", start, end) < 0


class Decoder:
    """Bytes in, events out. Accepts LF, CR LF and CR line ends, cut anywhere."""

    __slots__ = ("_begun", "_data", "_event", "_id", "_limit", "_size", "_waiting")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._begun: list[bytes] = []  # of a line whose end has not come
        self._waiting = 0  # bytes of it
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._id: str | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes and return the events they complete.

        Raises:
            EventTooLarge: an event grows beyond the limit.
        """
        events: list[Event] = []
        if b"\n" in chunk or b"\r" in chunk or self._ends_in_carriage:
            events = self._lines(b"".join([*self._begun, chunk]))
        elif chunk:
            self._begun.append(chunk)
            self._waiting += len(chunk)
        if self._size + self._waiting > self._limit:
            raise EventTooLarge(f"an event is larger than {self._limit} bytes")
        return events

    @property
    def _ends_in_carriage(self) -> bool:
        return bool(self._begun) and self._begun[-1].endswith(b"\r")

    def _lines(self, text: bytes) -> list[Event]:
        """The events that these lines complete; what follows the last of them is kept."""
        events: list[Event] = []
        position = 0
        while (found := _line_end(text, position)) is not None:
            end, following = found
            event = self._line(text, position, end)
            if event is not None:
                events.append(event)
            position = following
        rest = text[position:]
        self._begun, self._waiting = [rest] if rest else [], len(rest)
        return events

    def _line(self, text: bytes, begin: int, end: int) -> Event | None:
        if begin == end:
            return self._dispatch()
        if text.startswith(b"data: ", begin):  # which may be large: it is copied once
            self._take(text[begin + 6 : end])
            return None
        name, _, value = text[begin:end].partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._take(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        return None

    def _take(self, data: bytes) -> None:
        self._data.append(data)
        self._size += len(data) + 1  # an empty line costs memory, too

    def _dispatch(self) -> Event | None:
        data, event = self._data, self._event
        self._data, self._event, self._size = [], "", 0
        if not data:
            return None
        return Event(b"\n".join(data), event or "message", self._id)


def _line_end(text: bytes, start: int) -> tuple[int, int] | None:
    """Where the line ends that begins here, and where the next one begins; None where that has not come."""
    newline = text.find(b"\n", start)
    carriage = text.find(b"\r", start, newline if newline >= 0 else len(text))
    if carriage < 0:
        return None if newline < 0 else (newline, newline + 1)
    if carriage == len(text) - 1:
        return None  # the LF of a CR LF may still come
    return carriage, carriage + (2 if newline == carriage + 1 else 1)
