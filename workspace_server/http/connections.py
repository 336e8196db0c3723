"""Accepts and closes the connections of a workspace server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from lm_tools_bridge.http_server.byte_budget import ByteBudget
from lm_tools_bridge.http_server.connections.connection import HttpConnection
from lm_tools_bridge.http_server.connections.open_connections import Connections as OpenConnections
from lm_tools_bridge.http_server.connections.server_context import ServerContext
from lm_tools_bridge.http_server.deadline import Deadlines
from lm_tools_bridge.http_server.limits import Limits
from lm_tools_bridge.http_server.parsing.head import RequestHead
from lm_tools_bridge.http_server.parsing.head_reader import ReadHead
from lm_tools_bridge.http_server.refusal import AdmissionRefusal
from lm_tools_bridge.http_server.request import JSON
from lm_tools_bridge.http_server.responses.response_head import render_head
from lm_tools_bridge.protocol import jsonrpc
from workspace_server.http.admission import MAX_BODY, Admission
from workspace_server.http.head_reader import ManagerHead, ManagerHeadReader
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


class ManagerConnection(HttpConnection[ManagerHead]):
    """One connection; `handle` answers each request, at once or in a task."""

    __slots__ = ("_handle",)

    def __init__(self, server: ServerContext[ManagerHead], handle: Callable[[HttpRequest], None]) -> None:
        super().__init__(server)
        self._handle = handle

    def serve(self, read: ReadHead[ManagerHead], body: bytes) -> None:
        """Hand the request to the routes."""
        request = HttpRequest(self, read, self.parser.raw_head, body)
        self.start_serving(request)
        self._handle(request)

    def render_refusal(self, refusal: AdmissionRefusal, head: RequestHead | None) -> bytes:
        """Render a refusal as a JSON-RPC error without an id, because no message was read."""
        body = jsonrpc.error(None, refusal.code, refusal.reason)
        length = ("Content-Length", str(len(body)))
        fields = [("Content-Type", JSON), length, ("Connection", "close"), *refusal.headers]
        rendered = render_head(refusal.status, fields)
        return rendered if head is not None and head.method == "HEAD" else rendered + body
