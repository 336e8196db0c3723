"""The room of one large request body, from the wait for it until the request is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from math import inf
from typing import Any, Final, Protocol

from lm_tools_bridge.http_server.connection_state import Event, State
from lm_tools_bridge.http_server.deadline import Deadline
from lm_tools_bridge.http_server.open_connections import ServerContext
from lm_tools_bridge.http_server.refusal import BODY_TIMEOUT, NO_ROOM, AdmissionRefusal

SHORT_S: Final = 5.0
"""Seconds that a client may send or read nothing while others wait for room."""


class ReceivingConnection(Protocol):
    """The connection that receives the body.

    Attributes:
        deadline: its deadline, which is set while the body is waited for.
        transport: whose reading pauses while there is no room.
    """

    deadline: Deadline
    transport: asyncio.Transport

    @property
    def client(self) -> Hashable:
        """Whose share of the room the body takes."""

    @property
    def state(self) -> State:
        """What the connection does now."""

    @property
    def received(self) -> int:
        """The bytes of the body that were received."""

    def move(self, event: Event) -> None:
        """Go to the next state."""

    def read_body(self) -> None:
        """Receive the body: there is room now."""

    def refuse_body(self, refusal: AdmissionRefusal) -> None:
        """Refuse the request instead of receiving its body."""


class BodyRoom:
    """The room of one body, which waits if there is none.

    Args:
        size: bytes of the body; the most that it may have if its length is not known.
    """

    __slots__ = ("_connection", "_received", "_room", "_server", "_until")

    def __init__(self, connection: ReceivingConnection, server: ServerContext[Any], size: int) -> None:
        self._connection = connection
        self._server = server
        self._received = -1  # when the body was looked at last
        self._until = inf
        self._room = server.buffers.reserve(connection.client, size, self._on_room)
        if not self._room.is_granted:
            connection.move(Event.ROOM_AWAITED)
            connection.transport.pause_reading()
            connection.deadline.set(server.connections.limits.room_s, self._on_no_room)

    @property
    def is_granted(self) -> bool:
        """Whether the body may be received."""
        return self._room.is_granted

    def expect(self) -> None:
        """Set the deadline of the body, and look before whether it has stopped while others wait for room."""
        body_s = self._server.connections.limits.body_s
        self._until = self._server.deadlines.now() + body_s
        self._connection.deadline.set(min(SHORT_S, body_s), self._look)

    def keep(self, size: int) -> None:
        """Keep room for the whole body, whose size is known now."""
        self._room.resize(size)

    def release(self) -> None:
        """Give the room back, or end the wait for it."""
        self._room.release()

    def _on_room(self) -> None:
        asyncio.get_running_loop().call_soon(self._begin)  # not within the work of another connection

    def _begin(self) -> None:
        if self._connection.state is State.WAITING and self._room.is_granted:
            self._connection.move(Event.ROOM_GRANTED)
            self._connection.transport.resume_reading()
            self._connection.read_body()

    def _on_no_room(self) -> None:
        self._connection.transport.resume_reading()
        self._connection.refuse_body(NO_ROOM)

    def _look(self) -> None:
        before, self._received = self._received, self._connection.received
        has_stopped = self._received == before and self._server.buffers.is_short
        if has_stopped or self._server.deadlines.now() >= self._until:
            self._connection.refuse_body(BODY_TIMEOUT)
        else:
            self._connection.deadline.set(SHORT_S, self._look)
