"""Serves the manager's port, in the daemon and in tests.

The caller binds the sockets. aiohttp, which serves other requests than those at MCP routes, is loaded for the
first of them (`aiohttp_server.py`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lm_tools_bridge.http_server.byte_budget import ByteBudget
from lm_tools_bridge.http_server.limits import Limits
from manager.guests import GuestGate
from manager.http.request import HttpRequest
from manager.listener.aiohttp_server import LazyAiohttpServer
from manager.listener.connections import Connections
from manager.listener.pages import port_runner
from manager.listener.peer_identity import PeerCheck
from manager.listener.refusal_log import RefusalLog
from manager.relay.fast_path import FastPath
from manager.routing.request_heads.admission import AdmissionRules

if TYPE_CHECKING:
    from aiohttp import web


class Runner:
    """Serves MCP routes, and an aiohttp application at all others.

    Attributes:
        connections: the open connections.
    """

    def __init__(
        self,
        make_app: Callable[[], web.Application],
        rules: AdmissionRules,
        *,
        limits: Limits = Limits(),  # noqa: B008  a frozen value
        peer_check: PeerCheck | None = None,
        buffers: ByteBudget | None = None,
        gate: GuestGate | None = None,
    ) -> None:
        """`make_app` is called once, in a thread, for the first request that aiohttp serves."""
        self.connections = Connections(rules, limits, RefusalLog(), peer_check, buffers, gate=gate)
        self._aiohttp = LazyAiohttpServer(lambda: port_runner(make_app(), self.connections))

    async def listen(
        self,
        sockets: Iterable[socket.socket],
        serve: Callable[[HttpRequest], None] | None = None,
        fast_path: FastPath | None = None,
    ) -> list[asyncio.Server]:
        """Accept connections on these bound sockets.

        To stop, call `close()` of every server, then `await cleanup()`.

        Args:
            serve: answers a request at an MCP route; None where aiohttp serves all routes.
            fast_path: answers calls that are like earlier ones, if there is one.
        """
        factory = self.connections.factory(self._aiohttp.protocol, serve, fast_path)
        loop = asyncio.get_running_loop()
        return [await loop.create_server(factory, sock=sock) for sock in sockets]

    async def load(self) -> None:
        """Load aiohttp before the first request needs it."""
        await self._aiohttp.load()

    async def cleanup(self) -> None:
        """Close all connections; requests under way may finish first."""
        await self.connections.close()
        await self._aiohttp.close()
