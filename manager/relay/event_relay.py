"""Relays an event stream of a workspace server to a client, event by event.

Its bytes stay as they are. A large event is not kept back until it is whole, if its beginning says already
that it is the response: who has begun to read that can only be told by a broken connection that the rest does
not come. Who writes the bytes, and what is said where no response came, is `writer.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from manager.forwarding.answer import COLLECTED, InterruptedAnswerError, too_large
from manager.forwarding.messages import answered, check_id
from manager.http.event_response import EventResponse
from manager.upstream.response import Piece
from protocol import sse

_LF: Final = 0x0A
_LONGEST_BOUNDARY: Final = b"\r\n\r\n"
_BOUNDARIES: Final = (b"\n\n", _LONGEST_BOUNDARY, b"\r\r")
_BOUNDARY: Final = re.compile(rb"\n\n|\r\n\r\n|\r\r")
_RESPONSE: Final = re.compile(
    rb"(?:(?:event: ?message|(?:id|retry)?:[^\r\n]{0,256})(?:\r\n|\n|\r)){0,8}"
    rb'data: ?\{"jsonrpc": ?"2\.0", ?"id": ?(-?[0-9]{1,32}|"[^"\\\r\n]{1,254}"), ?"(?:result|error)": ?\{'
)
"""How an event begins that nobody needs to read further to know it for a response."""


class EventSplitter:
    """Says of a stream's bytes which may go out now, and remembers whether a response was among them.

    Args:
        identity: of the request, as JSON text.
        limit: bytes of an event that is worth waiting for.

    Attributes:
        is_answered: whether the response was among the events.
        is_open: whether a part of an event is out whose end has not come.
        size: bytes of the event that is not complete yet.
    """

    __slots__ = ("_held", "_identity", "_limit", "_seam", "is_answered", "is_open", "size")

    def __init__(self, identity: bytes, limit: int) -> None:
        self._identity = identity
        self._limit = limit
        self.is_answered = False
        self.is_open = False
        self.size = 0
        self._held: bytearray | bytes = b""
        self._seam = b""  # the last bytes that are out of an open event: its boundary may have begun

    def take(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes, and return those that may go out now.

        Raises:
            InterruptedAnswerError: there is the response to another request among them.
        """
        return self._continued(chunk) if self.is_open else self._whole(chunk)

    def _whole(self, chunk: bytes) -> list[bytes]:
        """All events that are complete now, and the beginning of one that need not be."""
        data: bytes | bytearray = chunk
        held = self._held
        searched = max(0, len(held) - len(_LONGEST_BOUNDARY))
        if held:
            data = bytearray(held) if isinstance(held, bytes) else held
            data += chunk
        end = _last_end(data, searched)
        whole, rest = bytes(data[:end]), data[end:] if end else data
        self._read(whole)
        self.size = len(rest)
        is_large = COLLECTED <= self.size <= self._limit
        response = _RESPONSE.match(rest) if is_large else None
        if response is None:
            self._held = rest  # a second piece makes it one that grows
            return [whole] if whole else []
        check_id(response[1], self._identity)
        self._held = b""
        self.is_open, self._seam = True, b""
        begun = bytes(rest)
        self._note(begun)
        return [whole, begun] if whole else [begun]

    def _continued(self, chunk: bytes) -> list[bytes]:
        """More of an event that is partly out, and what follows it."""
        seam = self._seam
        end = _first_end(seam + chunk[: len(_LONGEST_BOUNDARY)]) - len(seam)
        if end <= 0:
            end = _first_end(chunk)
        if end <= 0:
            self.size += len(chunk)
            self._note(chunk)
            return [chunk]
        self.is_open, self.is_answered = False, True
        self.size = 0
        rest = chunk[end:]
        return [chunk[:end], *(self._whole(rest) if rest else [])]

    def _read(self, events: bytes) -> None:
        """Look for the response in whole events."""
        for event in sse.Decoder(len(events)).feed(events):
            if answered(event.data, self._identity) is not None:
                self.is_answered = True

    def _note(self, out: bytes) -> None:
        self._seam = (self._seam + out[-len(_LONGEST_BOUNDARY) :])[1 - len(_LONGEST_BOUNDARY) :]


# Looking for one byte is a hundred times as fast as looking for two.


def _last_end(data: bytes | bytearray, start: int) -> int:
    """Where the last event ends; 0 where none does."""
    if data.find(b"\r", start) >= 0:
        return max((at + len(one) for one in _BOUNDARIES if (at := data.rfind(one, start)) >= 0), default=0)
    at = data.rfind(b"\n", start)
    while at > start:
        if data[at - 1] == _LF:
            return at + 1
        at = data.rfind(b"\n", start, at)
    return 0


def _first_end(data: bytes) -> int:
    """Where the first event ends; 0 where none does."""
    if b"\r" in data:
        found = _BOUNDARY.search(data)
        return found.end() if found else 0
    at = data.find(b"\n")
    while at >= 0:
        if data[at + 1 : at + 2] == b"\n":
            return at + 2
        at = data.find(b"\n", at + 1)
    return 0


class EventRelay:
    """Where the bytes of a workspace server's events go: to a client, as far as they may."""

    __slots__ = ("_limit", "_out", "events")

    def __init__(self, out: EventResponse, identity: bytes, limit: int) -> None:
        self.events = EventSplitter(identity, limit)
        self._out = out
        self._limit = limit

    def put(self, data: Piece) -> bool:
        """Take a piece of the stream; whether the client keeps up.

        Raises:
            InterruptedAnswerError: an event is too large, or the response to another request.
        """
        has_room = True
        for piece in self.events.take(bytes(data)):
            has_room = self._out.put(piece)
        self._out.is_inside_event = self.events.is_open
        if self.events.size > self._limit:
            raise InterruptedAnswerError(too_large(self._limit))
        return has_room

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call this when the client keeps up again, or is gone."""
        self._out.when_writable(call)
