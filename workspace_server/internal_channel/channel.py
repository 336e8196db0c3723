"""Serves the internal channel: a unix socket for programs of the same user that have the token.

This module accepts connections and limits their number; `dispatcher.py` answers messages; `address.py`
creates the socket. Messages are never logged.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from lm_tools_bridge.machine.peers.confined_process import is_confined_peer
from lm_tools_bridge.machine.peers.peer_uid import unix_peer_uid
from lm_tools_bridge.protocol import jsonrpc
from workspace_server import log
from workspace_server.internal_channel import address as addresses
from workspace_server.internal_channel.address import ChannelAddress
from workspace_server.internal_channel.change_watcher import ChangeWatcher
from workspace_server.internal_channel.connection import ChannelConnection
from workspace_server.internal_channel.dispatcher import InternalDispatcher
from workspace_server.internal_channel.limits import DEFAULTS, ChannelLimits

_AFTER_FAILED_ACCEPT_S: Final = 0.2


class InternalChannel:
    """The internal channel of one workspace. Create it inside the running loop.

    Args:
        dispatch: answers messages.
        address: where to listen.
        watch: detects changes of secrets and configuration.
        limits: numbers and deadlines.
        own_uid: user id whose programs may connect; None for this process's.
    """

    def __init__(
        self,
        dispatch: InternalDispatcher,
        address: ChannelAddress,
        watch: ChangeWatcher,
        limits: ChannelLimits = DEFAULTS,
        own_uid: int | None = None,
    ) -> None:
        self._dispatch = dispatch
        self._address = address
        self._watch = watch
        self._limits = limits
        self._own_uid = os.geteuid() if own_uid is None else own_uid
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._polling: asyncio.Task[None] | None = None
        self._connections: dict[asyncio.Task[None], ChannelConnection] = {}

    async def start(self) -> None:
        """Start listening, and write the file that leads to the socket.

        Raises:
            private_files.UnsafePathError: other users can access a folder.
            OSError: the socket or its file cannot be created.
        """
        listening = asyncio.ensure_future(asyncio.to_thread(addresses.listen, self._address))
        try:
            self._listener = await asyncio.shield(listening)
        except asyncio.CancelledError:
            self._listener = await listening  # so that `stop` removes what the thread is creating
            raise
        self._accepting = asyncio.create_task(self._accept(self._listener), name="internal-accept")

    async def stop(self) -> None:
        """Remove socket and file, and close all connections. Idempotent."""
        tasks = [task for task in (self._accepting, self._polling, *self._connections) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            await asyncio.to_thread(addresses.withdraw, self._address)

    def notify_all(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification to every authenticated connection."""
        message = jsonrpc.notification(method, params)
        for connection in self._connections.values():
            connection.notify(message)

    async def poll_changes(self) -> None:
        """Check for changes now, and notify all connections of them."""
        for method, params in await self._watch.poll():
            self.notify_all(method, params)

    async def authenticated(self) -> None:
        """A connection has sent the token: poll for changes from now on."""
        if self._polling is None or self._polling.done():
            await self._watch.poll()  # changes before the first connection are not reported
            if self._polling is None or self._polling.done():
                self._polling = asyncio.create_task(self._keep_polling(), name="internal-poll")

    async def _keep_polling(self) -> None:
        while any(connection.is_authenticated for connection in self._connections.values()):
            await asyncio.sleep(self._limits.poll_s)
            try:
                await self.poll_changes()
            except Exception as fault:  # noqa: BLE001  the next poll may succeed
                log.fault("internal_poll_failed", fault)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError as error:  # no more descriptors, for example
                log.error("internal_accept_failed", cause=error.strerror)
                await asyncio.sleep(_AFTER_FAILED_ACCEPT_S)
                continue
            is_ours = unix_peer_uid(sock) == self._own_uid and not is_confined_peer(sock)
            if len(self._connections) >= self._limits.connections or not is_ours:
                sock.close()
                continue
            self._serve(sock)

    def _serve(self, sock: socket.socket) -> None:
        connection = ChannelConnection(self._dispatch, self, self._limits)
        task = asyncio.create_task(connection.run(sock), name="internal-connection")
        self._connections[task] = connection
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._connections[task]
        with suppress(asyncio.CancelledError):
            if (fault := task.exception()) is not None:
                log.fault("internal_connection_failed", fault)
