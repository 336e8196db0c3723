"""One HTTP/1.1 connection of a server: reads requests, serves them one after the other, enforces deadlines.

Only this module and its parser decide where a request ends. `connection_state.py` has the states. A program
subclasses `HttpConnection` and implements `serve` and `render_refusal`.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Final, cast

from lm_tools_bridge.http_server.body_room import BodyRoom
from lm_tools_bridge.http_server.byte_budget import SMALL
from lm_tools_bridge.http_server.connection_state import TRANSITIONS, Event, State
from lm_tools_bridge.http_server.deadline import Deadline
from lm_tools_bridge.http_server.open_connections import ServerContext
from lm_tools_bridge.http_server.refusal import (
    BODY_TIMEOUT,
    HEAD_TIMEOUT,
    TOO_MANY_CONNECTIONS,
    AdmissionRefusal,
)
from lm_tools_bridge.http_server.request import BaseRequest
from lm_tools_bridge.http_server.request_head import Head, ReadHead, RefusedHead, RequestHead
from lm_tools_bridge.http_server.request_parser import RequestParser
from lm_tools_bridge.http_server.writing_connection import WritingConnection

MAX_PIPELINED: Final = 64 * 1024
"""Bytes that a client may send ahead while a request is being answered; more closes the connection."""

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

# On Python 3.11, looking up a member of an Enum takes 0.1 µs; a request needs a dozen.
_IDLE, _HEAD, _BODY, _SERVING, _DELEGATED = State.IDLE, State.HEAD, State.BODY, State.SERVING, State.DELEGATED
_REQUEST_READ, _ANSWERED = Event.REQUEST_READ, Event.ANSWERED


class HttpConnection(WritingConnection[Head]):
    """One connection.

    Attributes:
        state: what it does with the bytes that arrive.
        deadline: its only deadline, whatever it waits for.
        parser: of its requests.
    """

    __slots__ = (
        "_is_reading",
        "_read",
        "_request",
        "_room",
        "deadline",
        "parser",
        "state",
    )

    def __init__(self, server: ServerContext[Head]) -> None:
        super().__init__(server)
        self.state = _IDLE
        self.deadline = Deadline(server.deadlines)
        self.parser: RequestParser[Head] = RequestParser(server.heads, server.body_cap)
        self._request: BaseRequest | None = None
        self._read: ReadHead[Head] | None = None  # the head of a body that is being received
        self._room: BodyRoom | None = None  # of a large body
        self._is_reading = False

    # -- what a program decides -----------------------------------------------------------------------------

    @abstractmethod
    def serve(self, read: ReadHead[Head], body: bytes) -> None:
        """Answer a complete request, at once or later; call `start_serving` with its request object."""

    @abstractmethod
    def render_refusal(self, refusal: AdmissionRefusal, head: RequestHead | None) -> bytes:
        """Render a refusal as a whole response; `head` where it could be parsed."""

    def take_over(self, read: ReadHead[Head]) -> bool:
        """Handle a request without reading its body here; return whether that was done."""
        return False

    # -- asyncio.Protocol -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to wait for a request, or refuse the connection if there are too many."""
        # Not an isinstance check: uvloop's transports do not inherit from asyncio's.
        self.transport = cast("asyncio.Transport", transport)
        connections = self._server.connections
        limits = connections.limits
        if connections.admit(self):
            first_s = limits.head_s if limits.first_s is None else limits.first_s
            self.deadline.set(first_s, self.on_head_timeout)
        elif connections.may_refuse(self):
            self.refuse(TOO_MANY_CONNECTIONS, None)
        else:  # even those that wait for the end of their refusal are too many
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything and tell the request that its client disconnected."""
        self.move(Event.LOST)
        self._read = None
        self.parser.close()
        self.deadline.close()
        self._release_room()
        self._server.connections.discard(self)
        self.close_writing()
        request, self._request = self._request, None
        if request is not None:
            request.disconnected()

    def data_received(self, data: bytes) -> None:
        """Parse the bytes, or buffer them while a request is being answered."""
        state = self.state
        if state is _IDLE or state is _HEAD or state is _BODY or state is State.DISCARDING:
            self.parser.receive(data)
            self.read_requests()
        elif state is _SERVING or state is _DELEGATED or state is State.WAITING:
            self.parser.receive(data)
            if len(self.parser.buffer) > MAX_PIPELINED:
                self.abort()

    def resume_writing(self) -> None:
        """Note that the client has caught up, and read its next request."""
        super().resume_writing()
        if self.state is _IDLE or self.state is _HEAD:
            self.transport.resume_reading()
            self.read_requests()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.state is not _SERVING and self.state is not _DELEGATED

    def move(self, event: Event) -> None:
        """Go to the next state."""
        self.state = TRANSITIONS[self.state][event]

    # -- requests -------------------------------------------------------------------------------------------

    def read_requests(self) -> None:
        """Serve what has been received, until a request is being answered or more bytes are needed."""
        if self._is_reading:
            return  # a request was answered synchronously: the loop below goes on
        self._is_reading = True
        try:
            while self.parser.buffer and self._read_next():
                pass
        finally:
            self._is_reading = False

    def _read_next(self) -> bool:
        """Take one step; return whether another one may follow."""
        state = self.state
        if state is _IDLE or state is _HEAD:
            return self._read_head()
        if state is _BODY:
            return self._read_body()
        if state is State.DISCARDING:
            return self._discard_body()
        return False

    def _read_head(self) -> bool:
        parser = self.parser
        read = parser.next_head()
        if read is None:
            self._await_head()
            return False
        if isinstance(read, RefusedHead):
            self.refuse(read.refusal, read.parsed)
            return False
        if self.take_over(read):
            return True
        length = read.length
        body = parser.whole_body(length)
        if body is not None:
            self.deadline.clear()
            self.serve(read, body)
            return True
        self.move(Event.HEAD_ADMITTED)
        self._read = read
        parser.expect_body(length)
        if length is None or length <= SMALL or self._has_room(length):
            self.read_body()
        return self.state is _BODY

    def _has_room(self, size: int) -> bool:
        """Reserve room for a large body; False while the body waits for it."""
        self._room = BodyRoom(self, self._server, size)
        return self._room.is_granted

    def read_body(self) -> None:
        """Receive a body from now on."""
        read = self._read
        assert read is not None  # noqa: S101  narrows the type: a body follows a head
        if read.head.framing.expects_continue and not (self.parser.buffer or self.received):
            self.transport.write(_CONTINUE)
        if self._room is None:
            self.deadline.set(self._server.connections.limits.body_s, self._on_body_timeout)
        else:
            self._room.expect()
        self.read_requests()

    @property
    def received(self) -> int:
        """The bytes of the body that were received."""
        return self.parser.received

    def refuse_body(self, refusal: AdmissionRefusal) -> None:
        """Refuse a request whose body is not complete."""
        self.refuse(refusal, None if self._read is None else self._read.head.parsed)

    def _await_head(self) -> None:
        """Start the deadline of a head that has begun; empty lines before it change no deadline."""
        if self.state is _IDLE and self.parser.has_begun:
            self.move(Event.HEAD_BEGUN)
            self.deadline.set(self._server.connections.limits.head_s, self.on_head_timeout)

    def _read_body(self) -> bool:
        body, read = self.parser.next_body(), self._read
        assert read is not None  # noqa: S101  narrows the type: a body follows a head
        if body is None:
            if self._room is None and self.parser.received > SMALL:  # chunked: its length is not known
                return self._has_room(self._server.body_cap)
            return False
        if isinstance(body, AdmissionRefusal):
            self.refuse(body, read.head.parsed)
            return False
        self._read = None
        self.deadline.clear()
        if self._room is not None:
            self._room.keep(len(body))
        self.serve(read, body)
        return True

    def discard_body(self, length: int) -> None:
        """Drop the rest of the body of a request that was answered without it."""
        self.parser.discard_body(length)
        self.deadline.set(self._server.connections.limits.body_s, self.abort)
        self.read_requests()

    def _discard_body(self) -> bool:
        if self.parser.next_body() is None:
            return False
        self.move(Event.BODY_DISCARDED)
        self.await_request()
        return True

    def await_request(self) -> None:
        """Start the deadline of an idle connection."""
        self.deadline.set(self._server.connections.limits.keepalive_s, self.on_head_timeout)

    def refuse(self, refusal: AdmissionRefusal, head: RequestHead | None) -> None:
        """Write a refusal; read on for a while, because closing at once could destroy it on its way."""
        self.move(Event.REFUSED)
        self._read = None
        self._release_room()
        self.parser.close()
        self.transport.write(self.render_refusal(refusal, head))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.deadline.set(self._server.connections.limits.linger_s, self.abort)

    def on_head_timeout(self) -> None:
        """Refuse a head that is late; close a connection that was idle for too long."""
        if self.parser.has_begun:
            self.refuse(HEAD_TIMEOUT, None)
        elif self.backpressure.is_paused:  # it is still reading; `UnreadBytes` closes it if it stops
            self.await_request()
        else:
            self.transport.close()
            self.deadline.set(self._server.connections.limits.keepalive_s, self.abort)  # if it does not flush

    def _on_body_timeout(self) -> None:
        self.refuse_body(BODY_TIMEOUT)

    # -- responses (`request.ResponseConnection`) -----------------------------------------------------------

    def start_serving(self, request: BaseRequest) -> None:
        """Note that a request is being answered."""
        self.move(_REQUEST_READ)
        self._request = request

    def answered(self, *, is_last: bool) -> None:
        """Note that the response is complete; another request follows unless it `is_last`."""
        self._request = None
        self._release_room()
        if is_last:
            self.move(Event.ANSWERED_LAST)
            self.parser.close()
            self.transport.close()
            self.deadline.set(self._server.connections.limits.keepalive_s, self.abort)
            return
        self.move(_ANSWERED)
        self.await_request()
        if self.backpressure.is_paused:  # no more requests until the client reads its responses
            self.transport.pause_reading()
        else:
            self.read_requests()

    def _release_room(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.release()
