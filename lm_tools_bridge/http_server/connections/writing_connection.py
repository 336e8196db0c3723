"""The writing side of a connection: what its client has not read, and the end of a client that stops."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Coroutine, Hashable, Sequence
from contextlib import suppress
from typing import Any, Final, Generic

from lm_tools_bridge.http_server.connections.server_context import ServerContext
from lm_tools_bridge.http_server.connections.unread_bytes import UnreadBytes
from lm_tools_bridge.http_server.parsing.head_reader import Head
from lm_tools_bridge.http_server.request import Piece
from lm_tools_bridge.http_server.responses.backpressure import Backpressure

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
