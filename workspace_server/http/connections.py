"""Accepts and closes the connections of a workspace server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from lm_tools_bridge.http_server.byte_budget import ByteBudget
from lm_tools_bridge.http_server.connections.open_connections import Connections as OpenConnections
from lm_tools_bridge.http_server.connections.server_context import ServerContext
from lm_tools_bridge.http_server.deadline import Deadlines
from lm_tools_bridge.http_server.limits import Limits
from workspace_server.http.admission import MAX_BODY, Admission
from workspace_server.http.connection import ManagerConnection
from workspace_server.http.head_reader import ManagerHeadReader
from workspace_server.http.request import HttpRequest

BACKLOG: Final = 512
IDLE_S: Final = 3600.0
"""The manager keeps idle connections for reuse; closing one while it sends would lose a call."""
LIMITS: Final = Limits(first_s=IDLE_S, keepalive_s=IDLE_S, shutdown_s=2.0, connections=None)


class Connections(OpenConnections):
    """The open connections of one workspace server.

    Args:
        secret: of the instance; requests without it are refused.
        handle: answers a request; work that takes time goes into `HttpRequest.run`.
    """

    def __init__(self, secret: str, handle: Callable[[HttpRequest], None]) -> None:
        super().__init__(LIMITS)
        self._secret = secret
        self._handle = handle
        self._listener: asyncio.Server | None = None

    async def listen(self, sock: socket.socket) -> None:
        """Accept connections on a socket that is bound to 127.0.0.1, until `close`."""
        loop = asyncio.get_running_loop()
        heads = ManagerHeadReader(Admission(sock.getsockname()[1], self._secret))
        server = ServerContext(heads, MAX_BODY, self, Deadlines(loop), ByteBudget())

        def connect() -> ManagerConnection:
            return ManagerConnection(server, self._handle)

        self._listener = await loop.create_server(connect, sock=sock, backlog=BACKLOG)

    def stop_listening(self) -> None:
        """Accept no more: another process may do so on the same socket. Idempotent."""
        if self._listener is not None:
            self._listener.close()

    async def close(self) -> None:
        """Stop to accept, then close all connections; requests under way get 2 s. Idempotent."""
        self.stop_listening()
        await super().close()
