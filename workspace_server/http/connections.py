"""The connections of a workspace server: where they come from, how they end. One of them is
`connection.py`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from http_server.deadline import Deadlines
from workspace_server.http.admission import Admission
from workspace_server.http.connection import ClientConnection
from workspace_server.http.head_reader import Heads
from workspace_server.http.request import HttpRequest

BACKLOG: Final = 512
SHUTDOWN_S: Final = 2.0
"""How long answers under way are waited for at the end."""


class Connections:
    """The open connections of one server.

    Args:
        secret: opens the door.
        serve: answers a request; what takes time goes into `HttpRequest.run`.
    """

    def __init__(self, secret: str, serve: Callable[[HttpRequest], None]) -> None:
        self._secret = secret
        self._serve = serve
        self._open: set[ClientConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, sock: socket.socket) -> None:
        """Accept connections on a socket that is bound to 127.0.0.1, until `close`."""
        loop = asyncio.get_running_loop()
        heads, deadlines = Heads(Admission(sock.getsockname()[1], self._secret)), Deadlines(loop)

        def connect() -> ClientConnection:
            return ClientConnection(heads, self._serve, self._open, self._tasks, deadlines)

        self._server = await loop.create_server(connect, sock=sock, backlog=BACKLOG)

    async def close(self) -> None:
        """Accept no more; end all connections, after what is being answered had its time. Idempotent."""
        if self._server is not None:
            self._server.close()
        for one in list(self._open):
            if one.is_idle:
                one.abort()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SHUTDOWN_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for one in list(self._open):
            one.abort()
