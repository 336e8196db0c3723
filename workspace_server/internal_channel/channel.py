"""Serves the internal channel: a unix socket for programs of the same user that have the token.

Creates the socket and the private file that names it, accepts connections and limits their number, and tells
them of changed secrets and provider configuration: names, no values. `dispatcher.py` answers messages, which
are never logged.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import msgspec

from lm_tools_bridge.machine import private_files, unix_sockets
from lm_tools_bridge.machine.own_children import is_confined_peer
from lm_tools_bridge.machine.own_process import own_euid, own_uid
from lm_tools_bridge.machine.peer_uid import unix_peer_uid
from lm_tools_bridge.machine.unix_sockets import listening_socket
from lm_tools_bridge.protocol import jsonrpc
from workspace_server import log
from workspace_server.call_context import Toolbox
from workspace_server.internal_channel.connection import DEFAULTS, ChannelConnection, ChannelLimits
from workspace_server.internal_channel.dispatcher import InternalDispatcher
from workspace_server.internal_channel.provider_config import (
    SCOPES,
    ProviderConfig,
    ProviderConfigError,
    Scope,
    Signature,
)
from workspace_server.internal_channel.tools import InternalTools
from workspace_server.naming import INTERNAL_PREFIX
from workspace_server.secrets.store import LayeredSecretStore, SecretChanges

SECRET_CHANGED: Final = "notifications/secretChanged"  # noqa: S105  the name of a notification
CONFIG_CHANGED: Final = "notifications/configChanged"
Notice = tuple[str, Mapping[str, Any]]


class ChangeWatcher:
    """Compares secrets and configuration with their state at the previous poll; the first finds no change."""

    def __init__(self, secrets: SecretChanges, config: ProviderConfig) -> None:
        self._secrets = secrets
        self._config = config
        self._signatures: dict[Scope, Signature] = {}
        self._entries: dict[Scope, Mapping[str, Any]] = {}
        self._lock = asyncio.Lock()

    async def poll(self) -> list[Notice]:
        """The notifications (method, parameters) of changes since the previous poll."""
        async with self._lock:
            changed = await self._secrets.poll()
            notices: list[Notice] = [
                (SECRET_CHANGED, {"key": key, "action": action}) for key, action in changed
            ]
            for scope in SCOPES:
                names = await asyncio.to_thread(self._changed, scope)
                notices += [(CONFIG_CHANGED, {"scope": scope, "provider": name}) for name in names]
            return notices

    def _changed(self, scope: Scope) -> Sequence[str | None]:
        """Names of providers whose entry changed; [None] if the file became unreadable."""
        signature = self._config.signature(scope)
        is_new = scope not in self._signatures
        if not is_new and signature == self._signatures[scope]:
            return []
        self._signatures[scope] = signature
        try:
            now = self._config.entries(scope)
        except ProviderConfigError:
            return [] if is_new else [None]
        before, self._entries[scope] = self._entries.get(scope, {}), now
        if is_new:
            return []
        return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


FOLDER: Final = "internal"
# Programs of one user connect now and then; a burst waits here while the loop is busy.
BACKLOG: Final = 32
MAX_SOCKET_PATH_BYTES: Final = 100
"""sockaddr_un holds 104 bytes on macOS and 108 on Linux, terminator included."""
# The file has an address and a token: some 200 bytes. A larger one was not written by us.
_MAX_FILE: Final = 4096
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


@dataclass(frozen=True, slots=True)
class ChannelAddress:
    """The files and the token of one run's channel.

    Attributes:
        file: the JSON file `{socket, auth, pid}`, mode 0600, that the user's programs read.
        socket: the path of the socket, with a new name for every run.
        auth: the token of this run: 32 random bytes in hex.
    """

    file: Path
    socket: Path
    auth: str = field(repr=False)


def new_address(runtime_dir: Path, workspace: str, home: Path | None = None) -> ChannelAddress:
    """A new address for the workspace with this id; nothing is created yet.

    The socket lies beside the file; if its path would be too long, in the user's home folder; if that is too
    long, too, in a private folder under /tmp.
    """
    folder = runtime_dir / FOLDER
    hashed = hashlib.sha256(os.fsencode(f"{runtime_dir}\0{workspace}")).hexdigest()[:16]
    name = workspace if _PLAIN.match(workspace) else hashed
    run = token_hex(4)
    candidates = [
        folder / f"{name}-{run}.sock",
        folder / f"{hashed}-{run}.sock",
        (home or Path.home()) / f".lmtb-{hashed}" / f"{run}.sock",
    ]
    fitting = [path for path in candidates if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES]
    last = Path("/tmp", f"lmtb-{own_uid()}-{hashed}", f"{run}.sock")  # noqa: S108  make_private checks it
    return ChannelAddress(folder / f"{name}.json", next(iter(fitting), last), token_hex(32))


def listen(address: ChannelAddress) -> socket.socket:
    """Create the file and a listening socket; removes both again on failure.

    Raises:
        private_files.UnsafePathError: other users can access a folder.
        OSError: the socket or the file cannot be created.
    """
    for folder in (address.file.parent, address.socket.parent):
        private_files.make_private(folder)
    content = {"socket": str(address.socket), "auth": address.auth, "pid": os.getpid()}
    with unix_sockets.exclusive(address.file.parent):
        _remove_stale_sockets(address)
        # first: should this process be killed, the file tells the manager where the socket is
        private_files.write(address.file, msgspec.json.encode(content) + b"\n")
        try:
            return listening_socket(address.socket, BACKLOG)
        except BaseException:
            withdraw(address)
            raise


def withdraw(address: ChannelAddress) -> None:
    """Remove the socket, and the file unless a later run replaced it."""
    with suppress(OSError):
        address.socket.unlink(missing_ok=True)
    with suppress(OSError, private_files.UnsafePathError, msgspec.DecodeError, TypeError, KeyError):
        content = private_files.read(address.file, _MAX_FILE)
        if content is not None and msgspec.json.decode(content)["socket"] == str(address.socket):
            address.file.unlink(missing_ok=True)
    if address.socket.parent != address.file.parent:
        with suppress(OSError):
            address.socket.parent.rmdir()  # fails if another socket is in it


def _remove_stale_sockets(address: ChannelAddress) -> None:
    """Remove sockets that earlier runs of this workspace left behind."""
    folder, own = address.socket.parent, address.socket.name
    beginning = own[: own.rfind("-") + 1]  # empty in a folder of this workspace alone
    for name in os.listdir(folder):  # noqa: PTH208  a pattern is compiled, which takes 0.3 MB of each server
        if name.startswith(beginning) and name.endswith(".sock") and (not beginning or len(name) == len(own)):
            with suppress(OSError):
                unix_sockets.remove_if_stale(folder / name)


# Without a pause, the loop would spin while no descriptor is free. Connections wait in the backlog.
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
        self._own_uid = own_euid() if own_uid is None else own_uid
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
        listening = asyncio.ensure_future(asyncio.to_thread(listen, self._address))
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
            await asyncio.to_thread(withdraw, self._address)

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
        task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        del self._connections[task]
        with suppress(asyncio.CancelledError):
            if (fault := task.exception()) is not None:
                log.fault("internal_connection_failed", fault)


def make_channel(
    *,
    workspace: str,
    root: Path | None,
    folders: Sequence[Path],
    config_dir: Path,
    state_dir: Path,
    runtime_dir: Path,
    store: LayeredSecretStore,
    toolbox: Toolbox,
    version: str,
    prefix: str = INTERNAL_PREFIX,
    limits: ChannelLimits = DEFAULTS,
) -> InternalChannel:
    """The channel; call `start` to listen and `stop` in the end.

    Args:
        workspace: the workspace's id; `<runtime_dir>/internal/<id>.json` leads to the channel.
        root: the workspace's root, or None.
        folders: all folders of the workspace.
        config_dir, state_dir, runtime_dir: the user's folders.
        store: the secrets, shared with other users of the store.
        toolbox: the workspace's tools that the channel offers.
        prefix: prefix of the internal tools' names.
    """
    config = ProviderConfig(config_dir, root, state_dir / "locks")
    address = new_address(runtime_dir, workspace)
    tools = InternalTools(store, config, root, prefix)
    dispatch = InternalDispatcher(address.auth, version, tools, toolbox, folders)
    return InternalChannel(dispatch, address, ChangeWatcher(SecretChanges(store), config), limits)
