"""Encodes and decodes server-sent events (WHATWG HTML, Server-sent events).

Supports what MCP uses: `event`, `data`, `id`, `retry` and comments. The decoder is incremental and limits the
size of an event.
"""

from __future__ import annotations

import re
import sys
from typing import Final, NamedTuple

import msgspec

KEEP_ALIVE: Final = b": keep-alive\n\n"
# An event is held whole: large results with images fit, and an endless one does not fill the memory.
DEFAULT_LIMIT: Final = 32 * 1024 * 1024


class EventTooLarge(ValueError):
    """An event or an unfinished line exceeds the decoder's limit."""


_USUAL_FORM: Final = re.compile(rb"(?::([^\r\n]{0,256})\n)?(?:event: message\n)?data: ")
EVENT_END: Final = b"\n\n"


class Event(msgspec.Struct, frozen=True):
    """One event. Newlines join its `data` lines."""

    data: bytes
    event: str = "message"
    id: str | None = None


class SingleEvent(NamedTuple):
    """The position of an event's data in a stream, and the text of the comment before it, if any."""

    start: int
    end: int
    comment: bytes | None


def encode(
    data: bytes, *, event: str = "message", identity: str | None = None, comment: str | None = None
) -> bytes:
    """Encode one event.

    Args:
        data: one line of JSON.
        comment: a one-line text before the event, which clients ignore.

    Raises:
        ValueError: the data contains a line break, which would split the event.
    """
    if b"\n" in data or b"\r" in data:
        raise ValueError("event data must be a single line of JSON")
    head = f"id: {identity}\n" if identity is not None else ""
    note = f": {comment}\n" if comment is not None else ""
    return f"{note}{head}event: {event}\ndata: ".encode() + data + b"\n\n"


def priming_event(identity: str, retry_ms: int) -> bytes:
    """Encode a priming event: no data, but an event id to resume with and a retry delay in milliseconds."""
    return f"id: {identity}\nretry: {retry_ms}\ndata: \n\n".encode()


def single_line(body: bytes) -> bytes:
    """Replace the line breaks of a JSON text by blanks. JSON allows line breaks only as white space."""
    if b"\n" not in body and b"\r" not in body:
        return body
    return body.replace(b"\r", b" ").replace(b"\n", b" ")


def single_event(stream: bytes, start: int, end: int) -> SingleEvent | None:
    """The event in `stream[start:end]` if it is one event in the usual form with one data line; else None."""
    event = single_event_start(stream, start, end)
    if event is None or not stream.endswith(EVENT_END, event.start, end):
        return None
    last = end - len(EVENT_END)
    return SingleEvent(event.start, last, event.comment) if is_one_line(stream, event.start, last) else None


def single_event_start(stream: bytes, start: int = 0, end: int = sys.maxsize) -> SingleEvent | None:
    """As `single_event`, for a part that may be incomplete: its data end where the part ends."""
    match = _USUAL_FORM.match(stream, start, end)
    return None if match is None else SingleEvent(match.end(), min(end, len(stream)), match[1])


def is_one_line(text: bytes, start: int, end: int) -> bool:
    """Whether `text[start:end]` contains no line break."""
    return text.find(b"\n", start, end) < 0 and text.find(b"\r", start, end) < 0


class Decoder:
    """Incremental decoder. Accepts LF, CR LF and CR line ends, and chunks of any size."""

    __slots__ = ("_data", "_event", "_id", "_incomplete", "_incomplete_size", "_limit", "_size")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._incomplete: list[bytes] = []  # chunks of an incomplete line
        self._incomplete_size = 0  # their bytes
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._id: str | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        """Decode the next bytes and return the events they complete.

        Raises:
            EventTooLarge: an event exceeds the limit.
        """
        events: list[Event] = []
        if b"\n" in chunk or b"\r" in chunk or self._ends_in_carriage:
            events = self._lines(b"".join([*self._incomplete, chunk]))
        elif chunk:
            self._incomplete.append(chunk)
            self._incomplete_size += len(chunk)
        if self.pending > self._limit:
            raise EventTooLarge(f"an event is larger than {self._limit} bytes")
        return events

    @property
    def pending(self) -> int:
        """The bytes of the incomplete event so far."""
        return self._size + self._incomplete_size

    @property
    def _ends_in_carriage(self) -> bool:
        return bool(self._incomplete) and self._incomplete[-1].endswith(b"\r")

    def _lines(self, text: bytes) -> list[Event]:
        """The events that these lines complete. An incomplete last line is kept."""
        events: list[Event] = []
        position = 0
        while (line_end := _line_end(text, position)) is not None:
            end, following = line_end
            event = self._line(text, position, end)
            if event is not None:
                events.append(event)
            position = following
        rest = text[position:]
        self._incomplete, self._incomplete_size = [rest] if rest else [], len(rest)
        return events

    def _line(self, text: bytes, begin: int, end: int) -> Event | None:
        if begin == end:
            return self._dispatch()
        if text.startswith(b"data: ", begin):  # the data may be large: copied once only
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
        self._size += len(data) + 1  # one more, because an empty line takes memory as well

    def _dispatch(self) -> Event | None:
        data, event = self._data, self._event
        self._data, self._event, self._size = [], "", 0
        if not data:
            return None
        return Event(b"\n".join(data), event or "message", self._id)


def _line_end(text: bytes, start: int) -> tuple[int, int] | None:
    """Positions of the end of the line at `start` and of the next line; None if the line is incomplete."""
    newline = text.find(b"\n", start)
    carriage = text.find(b"\r", start, newline if newline >= 0 else len(text))
    if carriage < 0:
        return None if newline < 0 else (newline, newline + 1)
    if carriage == len(text) - 1:
        return None  # the LF of a CR LF may still come
    return carriage, carriage + (2 if newline == carriage + 1 else 1)
