"""Relays an event stream of a workspace server to a client, event by event, also a listen stream.

The bytes are not changed. Each event is buffered until it is complete, except a large one whose beginning
shows that it is the response; if that breaks off, the client's connection is closed. `writer.py` ends the
stream with an error if the server sends no response.

The listen stream of a stateless client (`subscriptions/listen`) has no task. It ends when the client
disconnects, the server ends its stream or the manager stops; in the latter two cases the client gets a
response.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Final

from lm_tools_bridge.protocol import sse
from lm_tools_bridge.protocol.errors import Refusal
from manager.answers.replies import Ending
from manager.forwarding.answer import COLLECTED, Answer, too_large, unusable
from manager.forwarding.body_flow import Flow
from manager.forwarding.forwarded_call import (
    AnswerFacts,
    InterruptedAnswerError,
    answered,
    check_id,
    facts_of,
)
from manager.http.event_response import EventResponse
from manager.http.request import HttpRequest
from manager.upstream.response import Piece

_LF: Final = ord("\n")
_LONGEST_BOUNDARY: Final = b"\r\n\r\n"
_BOUNDARIES: Final = (b"\n\n", _LONGEST_BOUNDARY, b"\r\r")
_BOUNDARY: Final = re.compile(rb"\n\n|\r\n\r\n|\r\r")
_RESPONSE: Final = re.compile(
    rb"(?:(?:event: ?message|(?:id|retry)?:[^\r\n]{0,256})(?:\r\n|\n|\r)){0,8}"
    rb'data: ?\{"jsonrpc": ?"2\.0", ?"id": ?(-?[0-9]{1,32}|"[^"\\\r\n]{1,254}"), ?"(?:result|error)": ?\{'
)
"""The beginning of an event that identifies the JSON-RPC response and its id."""


class EventSplitter:
    """Splits a stream into bytes that can be written now, and detects the response among its events.

    Args:
        identity: the id of the request as JSON text.
        limit: largest event in bytes.

    Attributes:
        is_answered: whether the response was returned in full.
        is_open: whether a part of an event was returned whose end has not arrived.
        size: bytes of the incomplete event so far.
        facts: what the response says; None if it was too large to be read.
    """

    __slots__ = ("_identity", "_incomplete", "_limit", "_tail", "facts", "is_answered", "is_open", "size")

    def __init__(self, identity: bytes, limit: int) -> None:
        self._identity = identity
        self._limit = limit
        self.is_answered = False
        self.is_open = False
        self.size = 0
        self.facts: AnswerFacts | None = None
        self._incomplete: bytearray | bytes = b""
        self._tail = b""  # the last bytes returned of an open event: its boundary may begin there

    def take(self, chunk: bytes) -> list[bytes]:
        """Process the next bytes of the stream, and return those that can be written now.

        Raises:
            InterruptedAnswerError: they contain the response to another request.
        """
        return self._continue_open(chunk) if self.is_open else self._complete_events(chunk)

    def _complete_events(self, chunk: bytes) -> list[bytes]:
        """Return all events that are complete now, and the beginning of a large response."""
        data: bytes | bytearray = chunk
        incomplete = self._incomplete
        searched = max(0, len(incomplete) - len(_LONGEST_BOUNDARY))
        if incomplete:
            data = bytearray(incomplete) if isinstance(incomplete, bytes) else incomplete
            data += chunk
        end = _last_end(data, searched)
        whole, rest = bytes(data[:end]), data[end:] if end else data
        self._detect_response(whole)
        self.size = len(rest)
        is_large = COLLECTED <= self.size <= self._limit
        response = _RESPONSE.match(rest) if is_large else None
        if response is None:
            self._incomplete = rest  # becomes a bytearray with the next piece
            return [whole] if whole else []
        check_id(response[1], self._identity)
        self._incomplete = b""
        self.is_open, self._tail = True, b""
        begun = bytes(rest)
        self._keep_tail(begun)
        return [whole, begun] if whole else [begun]

    def _continue_open(self, chunk: bytes) -> list[bytes]:
        """Return the next bytes of the open event, and the complete events after it."""
        tail = self._tail
        end = _first_end(tail + chunk[: len(_LONGEST_BOUNDARY)]) - len(tail)
        if end <= 0:
            end = _first_end(chunk)
        if end <= 0:
            self.size += len(chunk)
            self._keep_tail(chunk)
            return [chunk]
        self.is_open, self.is_answered = False, True
        self.size = 0
        rest = chunk[end:]
        return [chunk[:end], *(self._complete_events(rest) if rest else [])]

    def _detect_response(self, events: bytes) -> None:
        """Set `is_answered` if the response is among these complete events."""
        for event in sse.Decoder(len(events)).feed(events):
            if (found := answered(event.data, self._identity)) is not None:
                self.is_answered = True
                self.facts = facts_of(found.body, found.members, found.result)

    def _keep_tail(self, out: bytes) -> None:
        self._tail = (self._tail + out[-len(_LONGEST_BOUNDARY) :])[1 - len(_LONGEST_BOUNDARY) :]


# `find` is a hundred times as fast for one byte as for two.


def _last_end(data: bytes | bytearray, start: int) -> int:
    """The offset behind the last complete event; 0 if there is none."""
    if data.find(b"\r", start) >= 0:
        return max((at + len(one) for one in _BOUNDARIES if (at := data.rfind(one, start)) >= 0), default=0)
    at = data.rfind(b"\n", start)
    while at > start:
        if data[at - 1] == _LF:
            return at + 1
        at = data.rfind(b"\n", start, at)
    return 0


def _first_end(data: bytes) -> int:
    """The offset behind the first complete event; 0 if there is none."""
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
    """The sink that writes a workspace server's events to a client.

    Args:
        out: the client's event stream.
        identity: the id of the request as JSON text.
        limit: largest event in bytes.
        on_answered: called once the whole response is written.
    """

    __slots__ = ("_limit", "_on_answered", "_out", "events")

    def __init__(
        self,
        out: EventResponse,
        identity: bytes,
        limit: int,
        on_answered: Callable[[AnswerFacts | None], object] | None = None,
    ) -> None:
        self.events = EventSplitter(identity, limit)
        self._out = out
        self._limit = limit
        self._on_answered = on_answered

    def put(self, data: Piece) -> bool:
        """Process the next piece of the stream; return whether the client can take more now.

        Raises:
            InterruptedAnswerError: an event is too large, or the response to another request.
        """
        has_room = True
        for piece in self.events.take(bytes(data)):
            has_room = self._out.put(piece)
        self._out.is_inside_event = self.events.is_open
        if self.events.size > self._limit:
            raise InterruptedAnswerError(too_large(self._limit))
        if self.events.is_answered and self._on_answered is not None:
            self._on_answered(self.events.facts)
            self._on_answered = None
        return has_room

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call `call` once the client can take more or has disconnected."""
        self._out.when_writable(call)


class ListenStream:
    """Serves one listen stream, from its construction on.

    Args:
        out: the client's event stream, already open.
        ending: the stop of the manager, and the response to send then.
        identity: the id of the request as JSON text.
        answer: the workspace server's stream; None for a stream without events.
        limit: largest event in bytes.
    """

    __slots__ = ("_answer", "_ending", "_flow", "_identity", "_on_stop", "_out", "_relay")

    def __init__(
        self,
        http_request: HttpRequest,
        out: EventResponse,
        ending: Ending,
        identity: bytes,
        *,
        answer: Answer | None = None,
        limit: int = 0,
    ) -> None:
        self._out = out
        self._ending = ending
        self._identity = identity
        self._answer = answer
        self._flow: Flow | None = None
        self._relay: EventRelay | None = None
        self._on_stop = self._on_manager_stop  # one bound method, so that `discard` finds it
        http_request.on_disconnect = self._client_left
        http_request.release_input()
        if ending.seen is not None:
            ending.seen.listening = True
        ending.endings.add(self._on_stop)
        if answer is not None and self._answer is not None:
            self._relay = EventRelay(out, identity, limit)
            self._flow = answer.follow(self._relay, self._server_ended)

    def _server_ended(self, problem: Refusal | None) -> None:
        assert self._answer is not None  # noqa: S101  narrows the type: only its stream ends
        assert self._relay is not None  # noqa: S101  set with the answer
        problem = problem or unusable(self._answer.status)
        if not self._relay.events.is_answered:
            self._answer.fail(problem)
        self._finish(problem.as_error(self._identity))

    def _on_manager_stop(self) -> None:
        self._finish(self._ending.farewell)

    def _finish(self, last: bytes) -> None:
        """End the stream, with the response `last` if the server sent none."""
        self._release("ok")
        events = self._relay.events if self._relay is not None else None
        with contextlib.suppress(ConnectionError):
            if events is not None and events.is_open:
                self._out.abort()  # a part of an event is written and cannot be replaced
                return
            if events is None or not events.is_answered:
                self._out.put(sse.encode(sse.single_line(last)))
            self._out.close()

    def _client_left(self) -> None:
        """Release everything after the client has disconnected."""
        self._out.stop_keep_alives()
        self._release("cancelled")

    def _release(self, outcome: str) -> None:
        self._ending.endings.discard(self._on_stop)
        if self._ending.seen is not None:
            self._ending.seen.listening = False
        if self._flow is not None:
            self._flow.stop()
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.leave(outcome)
