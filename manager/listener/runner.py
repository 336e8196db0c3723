"""Serves the manager's port, and a private socket for a feature that brings requests of other machines.

The caller binds the sockets. aiohttp, which serves other requests than those at MCP routes, is loaded for the
first of them (`aiohttp_server.py`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from lm_tools_bridge.http_server.byte_budget import ByteBudget
from lm_tools_bridge.http_server.limits import Limits
from lm_tools_bridge.machine.private_files import make_private
from manager.guests import GuestGate
from manager.http.request import HttpRequest
from manager.listener.aiohttp_server import LazyAiohttpServer
from manager.listener.connection import RefusalLog
from manager.listener.connections import Connections
from manager.listener.peer_identity import PeerCheck
from manager.relay.fast_path import FastPath
from manager.routing.admission import AdmissionRules
from manager.startup.port import private_socket

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
        self._aiohttp = LazyAiohttpServer(lambda: self._make_runner(make_app))

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

    def _make_runner(self, make_app: Callable[[], web.Application]) -> web.AppRunner:
        from manager.listener.pages import port_runner  # noqa: PLC0415  with aiohttp, after the start

        return port_runner(make_app(), self.connections)

    async def load(self) -> None:
        """Load aiohttp before the first request needs it."""
        await self._aiohttp.load()

    async def cleanup(self) -> None:
        """Close all connections; requests under way may finish first."""
        await self.connections.close()
        await self._aiohttp.close()


class PrivateEndpoint:
    """A socket beside the control socket, served like the port, under rules of its own.

    Args:
        path: of the socket.
        runner: serves its connections.
        serve: answers a request at an MCP route.
        fast_path: answers calls that are like earlier ones, if there is one.
    """

    def __init__(
        self,
        path: Path,
        runner: Runner,
        serve: Callable[[HttpRequest], None],
        fast_path: FastPath | None,
    ) -> None:
        self._path = path
        self._runner = runner
        self._serve = serve
        self._fast_path = fast_path
        self._servers: list[asyncio.Server] = []
        self._inode = 0

    async def open(self) -> Path:
        """Listen, unless the socket is there; also makes it again if somebody removed it. Returns its path.

        Raises:
            OSError: it cannot be made.
        """
        if self._servers and self._is_in_place():
            return self._path
        make_private(self._path.parent)
        self.stop_listening()
        self._path.unlink(missing_ok=True)
        sock = private_socket(self._path)
        self._inode = self._path.lstat().st_ino
        self._servers = await self._runner.listen([sock], self._serve, self._fast_path)
        return self._path

    def stop_listening(self) -> None:
        """Accept no more connections, and remove the socket."""
        for server in self._servers:
            server.close()
        self._servers = []
        if self._inode and self._is_in_place():
            self._path.unlink(missing_ok=True)

    async def close(self) -> None:
        """Stop listening and close all connections; requests under way may finish first."""
        self.stop_listening()
        await self._runner.cleanup()

    def _is_in_place(self) -> bool:
        try:
            return self._path.lstat().st_ino == self._inode
        except OSError:
            return False
