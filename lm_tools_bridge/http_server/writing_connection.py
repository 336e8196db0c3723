"""The writing side of a connection: counts what its client has not read, and closes it when it stops."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Coroutine, Hashable, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, Protocol

from lm_tools_bridge.http_server.body_room import SHORT_S
from lm_tools_bridge.http_server.byte_budget import Room
from lm_tools_bridge.http_server.deadline import Deadline
from lm_tools_bridge.http_server.open_connections import ServerContext
from lm_tools_bridge.http_server.request import Backpressure, Piece
from lm_tools_bridge.http_server.request_head import Head

_OUTSTANDING: Final = 0x5411
"""SIOCOUTQ of Linux, tcp(7): asks for the bytes that the kernel holds for the client."""


class WatchedConnection(Protocol):
    """A connection that writes.

    Attributes:
        transport: it has paused writing.
    """

    transport: asyncio.Transport

    @property
    def client(self) -> Hashable:
        """Whose share of the room the bytes take."""

    def close_stopped(self) -> None:
        """Close the connection, since the client does not read."""


class UnreadBytes:
    """The watch of one connection, for as long as its transport pauses writing."""

    __slots__ = ("_connection", "_deadline", "_room", "_server", "_since", "_unread")

    def __init__(self, connection: WatchedConnection, server: ServerContext[Any]) -> None:
        self._connection = connection
        self._server = server
        self._deadline = Deadline(server.deadlines)
        self._room: Room | None = None
        self._unread: int | None = None  # when it was looked at last
        self._since = 0.0  # when the client was seen to have read something

    def begin(self, size: int) -> None:
        """Begin to watch, when the transport pauses writing.

        Args:
            size: bytes of what is being written. The transport keeps all of it until the last byte is read.
        """
        held = max(size, self._connection.transport.get_write_buffer_size())
        self._room = self._server.buffers.count(self._connection.client, held)
        self._since = self._server.deadlines.now()
        self._unread = None
        self._look_later()

    def end(self) -> None:
        """End the watch, when the transport resumes writing. Idempotent."""
        self._deadline.clear()
        room, self._room = self._room, None
        if room is not None:
            room.release()

    def close(self) -> None:
        """End the watch for good."""
        self.end()
        self._deadline.close()

    def _look_later(self) -> None:
        patience_s = self._server.connections.limits.unread_s
        if patience_s is not None:
            self._deadline.set(min(patience_s, SHORT_S) / 2, self._look)

    def _look(self) -> None:
        """Close the connection if the client has read nothing for too long."""
        server, now = self._server, self._server.deadlines.now()
        buffered = self._connection.transport.get_write_buffer_size()
        unread = buffered + _held_by_kernel(self._connection.transport)
        before, self._unread = self._unread, unread
        if before is not None and unread < before:
            self._since = now
        if self._room is not None and buffered > self._room.size:
            self._room.resize(buffered)
        patience_s = server.connections.limits.unread_s or 0
        patience_s = min(patience_s, SHORT_S) if server.buffers.is_short else patience_s
        if before is not None and now - self._since >= patience_s:
            self._connection.close_stopped()
        else:
            self._look_later()


def _held_by_kernel(transport: asyncio.Transport) -> int:
    """The bytes that the kernel holds until the client takes them; 0 where it does not tell."""
    if sys.platform != "linux":
        return 0
    import fcntl

    with suppress(OSError, ValueError):
        answer = fcntl.ioctl(transport.get_extra_info("socket").fileno(), _OUTSTANDING, bytes(4))
        return int.from_bytes(answer, sys.byteorder)
    return 0


_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: closing drops what the kernel holds for the client, and tells the client so."""


class WritingConnection(asyncio.Protocol, Generic[Head]):
    """The writing side of a connection.

    Attributes:
        backpressure: whether the client keeps up.
        transport: of asyncio, or uvloop.
    """

    __slots__ = ("_sending", "_server", "_unread", "backpressure", "transport")

    transport: asyncio.Transport

    def __init__(self, server: ServerContext[Head]) -> None:
        self.backpressure = Backpressure()
        self._server = server
        self._sending: Sequence[Piece] = ()
        self._unread: UnreadBytes | None = None  # once the client was too slow

    @property
    def client(self) -> Hashable:
        """Whose share of the buffers the current request takes."""
        return self

    def pause_writing(self) -> None:
        """Note that the client reads more slowly than the server writes."""
        self.backpressure.pause()
        if self._unread is None:
            self._unread = UnreadBytes(self, self._server)
        self._unread.begin(sum(map(len, self._sending)))

    def resume_writing(self) -> None:
        """Note that the client has caught up."""
        self.backpressure.resume()
        if self._unread is not None:
            self._unread.end()

    def close_writing(self) -> None:
        """Note that nothing can be written any more."""
        unread, self._unread = self._unread, None  # breaks the cycle, to spare the collector
        if unread is not None:
            unread.close()
        self.backpressure.resume(ConnectionResetError("the client is gone"))

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that ends with the server at the latest."""
        return self._server.connections.run(work)

    def send(self, pieces: Sequence[Piece]) -> None:
        """Hand bytes to the transport at once."""
        self._sending = pieces
        if len(pieces) == 1:
            self.transport.write(pieces[0])
        else:
            self.transport.writelines(pieces)
        self._sending = ()

    def abort(self) -> None:
        """Close the connection without flushing."""
        self.transport.abort()

    def close_stopped(self) -> None:
        """Close the connection of a client that does not read; drop what the kernel holds for it, too."""
        with suppress(OSError):
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.abort()
