"""Serves client connections on a port of their own, with handlers that a test provides."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from lm_tools_bridge.http_server.limits import Limits
from manager.http.request import HttpRequest
from manager.listener.runner import Runner
from manager.routing.admission import AdmissionRules

QUICK = Limits(linger_s=0.3, shutdown_s=0.5)


@asynccontextmanager
async def served_connection(
    serve: Callable[[HttpRequest], None], app: web.Application | None = None, limits: Limits = QUICK
) -> AsyncIterator[int]:
    """The port of a server whose MCP routes `serve` answers; all others are the application's."""
    sock = socket.create_server(("127.0.0.1", 0))
    port = int(sock.getsockname()[1])
    runner = Runner(lambda: app or web.Application(), AdmissionRules.for_ports([port]), limits=limits)
    servers = await runner.listen([sock], serve)
    try:
        yield port
    finally:
        for server in servers:
            server.close()
        await runner.cleanup()
        async with asyncio.timeout(5):  # none is left behind
            while runner.connections.open:
                await asyncio.sleep(0)


@asynccontextmanager
async def served_by(work: Callable[[HttpRequest], Awaitable[None]]) -> AsyncIterator[str]:
    """The URL of an MCP route whose requests are each answered in a task."""

    def serve(http_request: HttpRequest) -> None:
        http_request.run(_awaited(work, http_request))

    async with served_connection(serve) as port:
        yield f"http://127.0.0.1:{port}/mcp"


async def _awaited(work: Callable[[HttpRequest], Awaitable[None]], http_request: HttpRequest) -> None:
    await work(http_request)
