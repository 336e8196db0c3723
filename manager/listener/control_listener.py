"""Listens on the control socket, and makes it again if somebody removes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from lm_tools_bridge.http_server.open_connections import Connections
from lm_tools_bridge.machine.private_files import make_private
from manager.admin.control.renewals import Renewals
from manager.listener.aiohttp_server import LazyAiohttpServer
from manager.listener.control_connection import LIMITS, control_connections
from manager.logs.log import logger
from manager.startup.port import leave_signposts, private_socket, remove_signposts

if TYPE_CHECKING:
    from aiohttp import web

BACKLOG: Final = 1024


class ControlServices(Protocol):
    """The operations of `Services` that connections need."""

    def renew(self, session_id: str) -> bool:
        """See `Services.renew`."""

    def peer_allowed(self, transport: asyncio.BaseTransport | None) -> bool:
        """See `Services.peer_allowed`."""


class ControlListener:
    """The control socket of this manager, which holds the lock: whatever has its name is a leftover.

    Args:
        path: of the socket.
        services: what renews registrations, and decides who may use the socket.
        make_runner: makes the server of all requests but renewals.
        former_dirs: folders in which programs of earlier versions look for the socket.
    """

    def __init__(
        self,
        path: Path,
        services: ControlServices,
        make_runner: Callable[[Renewals], web.AppRunner],
        former_dirs: Sequence[Path] = (),
    ) -> None:
        self._path = path
        self._former_dirs = former_dirs
        self._services = services
        self._renewals = Renewals(services.renew)
        self._http = LazyAiohttpServer(lambda: make_runner(self._renewals))
        self._connections = Connections(LIMITS)
        self._server: asyncio.Server | None = None
        self._inode = 0
        self._is_closed = False

    async def open(self) -> None:
        """Begin to listen. Raises OSError if that is impossible."""
        self._path.unlink(missing_ok=True)
        sock = private_socket(self._path)
        self._inode = self._path.lstat().st_ino
        loop = asyncio.get_running_loop()
        try:
            make = control_connections(
                self._connections, self._http.protocol, self._renewals.renews, self._services.peer_allowed
            )
            self._server = await loop.create_server(make, sock=sock, backlog=BACKLOG)
        except BaseException:
            sock.close()
            raise
        leave_signposts(self._path, self._former_dirs)

    async def load(self) -> None:
        """Load what requests need before the first of them arrives."""
        await self._http.load()

    async def reopen_if_removed(self) -> None:
        """Make the socket and its folder again if they are gone or replaced. Raises what `open` raises."""
        if self._is_closed or self._is_in_place():
            return
        logger().warning("control_socket.removed", path=str(self._path))
        make_private(self._path.parent)
        if self._server is not None:
            self._server.close()
        await self.open()
        logger().info("control_socket.made_again", path=str(self._path))

    async def close(self) -> None:
        """Stop listening for good and remove the socket; requests under way may finish first."""
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        if self._is_in_place():
            self._path.unlink(missing_ok=True)
            remove_signposts(self._path, self._former_dirs)
        await self._connections.close()
        await self._http.close()

    def _is_in_place(self) -> bool:
        try:
            return self._path.lstat().st_ino == self._inode
        except OSError:
            return False
