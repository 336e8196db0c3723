"""Serves a tool service to web pages and programs over WebSockets, on a loopback port."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import WSCloseCode, web

from lm_tools_bridge.agent.tool_service.admission import PROTOCOL, admitted
from lm_tools_bridge.agent.tool_service.connection import Connection, Service
from lm_tools_bridge.agent.tool_service.keep_alive import PING_S, PONG_S, KeepAlive

PATH: Final = "/tools"
MAX_FRAME: Final = 4 * 1024 * 1024
MAX_CONNECTIONS: Final = 32
_LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Serving:
    """Where a service is reached: its `ws://` address, and the token that clients have to know."""

    address: str
    token: str


@asynccontextmanager
async def serving(
    service: Service,
    *,
    port: int = 0,
    origins: Collection[str] = (),
    token: str | None = None,
    ping_s: float = PING_S,
    pong_s: float = PONG_S,
) -> AsyncIterator[Serving]:
    """Serve for as long as the block lasts; at its end all connections are closed (1001).

    Args:
        service: answers lists and calls.
        port: 0 for a free one.
        origins: web pages that may connect; programs, which send no Origin, always may.
        token: what clients have to know; by default a new random one.

    Raises:
        OSError: the port is taken.
    """
    endpoint = _Endpoint(service, frozenset(origins), token or secrets.token_urlsafe(32), ping_s, pong_s)
    app = web.Application()
    app.router.add_get(PATH, endpoint.connect)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=5.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, _LOOPBACK, port)
        await site.start()
        bound = int(runner.addresses[0][1])
        endpoint.hosts = frozenset({f"{_LOOPBACK}:{bound}", f"localhost:{bound}"})
        yield Serving(f"ws://{_LOOPBACK}:{bound}{PATH}", endpoint.token)
    finally:
        await endpoint.close()
        await runner.cleanup()


class _Endpoint:
    def __init__(
        self, service: Service, origins: frozenset[str], token: str, ping_s: float, pong_s: float
    ) -> None:
        self.hosts: frozenset[str] = frozenset()
        self.token = token
        self._service = service
        self._origins = origins
        self._times = (ping_s, pong_s)
        self._open: set[web.WebSocketResponse] = set()

    async def connect(self, request: web.Request) -> web.StreamResponse:
        """Serve one connection, if it is admitted."""
        denied = admitted(request.headers, self.hosts, self._origins, self.token)
        if denied is not None:
            return web.json_response({"error": denied.reason}, status=denied.status)
        if len(self._open) >= MAX_CONNECTIONS:
            return web.json_response({"error": "too many connections"}, status=503)
        socket = web.WebSocketResponse(protocols=(PROTOCOL,), autoping=False, max_msg_size=MAX_FRAME)
        if not socket.can_prepare(request):
            return web.json_response({"error": "connect with a WebSocket"}, status=426)
        self._open.add(socket)
        try:
            await socket.prepare(request)
            await Connection(self._service, socket, KeepAlive(socket, *self._times)).serve()
        finally:
            self._open.discard(socket)
        return socket

    async def close(self) -> None:
        """Tell all clients that the server is going away."""
        for socket in list(self._open):
            await socket.close(code=WSCloseCode.GOING_AWAY, message=b"the server ends")
