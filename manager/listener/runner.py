"""How the manager's port is served: the one place for daemon and tests, so that both get the same.

Requests at MCP routes are served at once; what serves the others is loaded for the first of them
(`aiohttp_server.py`). Which addresses are bound, and by whom, is the daemon's: sockets are handed in.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from http_server.limits import Limits
from manager.http.request import HttpRequest
from manager.listener.aiohttp_server import LazyAiohttpServer
from manager.listener.connections import Connections
from manager.listener.pages import port_runner
from manager.listener.peer_identity import PeerCheck
from manager.listener.refusal_log import RefusalLog
from manager.route_cache.route_cache import FastPath
from manager.routing.request_heads.admission import AdmissionRules

if TYPE_CHECKING:
    from aiohttp import web


class Runner:
    """Serves the port, with the front on each connection, and an application behind it.

    Attributes:
        connections: those that are open.
    """

    def __init__(
        self,
        make_app: Callable[[], web.Application],
        rules: AdmissionRules,
        *,
        limits: Limits = Limits(),  # noqa: B008  a frozen value
        peer_check: PeerCheck | None = None,
    ) -> None:
        """`make_app` makes the application; called once, in a thread, when a request is for it."""
        self.connections = Connections(rules, limits, RefusalLog(), peer_check)
        self._late = LazyAiohttpServer(lambda: port_runner(make_app(), self.connections))

    async def listen(
        self,
        sockets: Iterable[socket.socket],
        serve: Callable[[HttpRequest], None] | None = None,
        fast: FastPath | None = None,
    ) -> list[asyncio.Server]:
        """Accept on these bound sockets.

        To end: `close()` every server, then `await cleanup()`, which ends the connections.

        Args:
            serve: answers a request at an MCP route; without it, all requests are the application's.
            fast: knows which of these requests need not be served.
        """
        factory = self.connections.factory(self._late.protocol, serve, fast)
        loop = asyncio.get_running_loop()
        return [await loop.create_server(factory, sock=sock) for sock in sockets]

    async def cleanup(self) -> None:
        """End all connections; what is being answered gets its time first."""
        await self.connections.close()
        await self._late.close()
