"""Listens on the control socket, and makes it again if somebody removes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from host.private_files import make_private
from manager.listener.aiohttp_server import LazyAiohttpServer
from manager.log import logger
from manager.port import private_socket

if TYPE_CHECKING:
    from aiohttp import web

BACKLOG: Final = 1024


class ControlListener:
    """The control socket of this manager, which holds the lock: whatever has its name is a leftover."""

    def __init__(self, path: Path, make_runner: Callable[[], web.AppRunner]) -> None:
        self._path = path
        self._http = LazyAiohttpServer(make_runner)
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
            self._server = await loop.create_server(self._http.protocol, sock=sock, backlog=BACKLOG)
        except BaseException:
            sock.close()
            raise

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
        await self._http.close()

    def _is_in_place(self) -> bool:
        try:
            return self._path.lstat().st_ino == self._inode
        except OSError:
            return False
