"""The MCP endpoint at a private socket: for a feature that brings requests of other machines to it.

It is opened when that feature asks for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from lm_tools_bridge.machine.private_files import make_private
from manager.http.request import HttpRequest
from manager.listener.runner import Runner
from manager.relay.fast_path import FastPath
from manager.startup.port import private_socket


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
