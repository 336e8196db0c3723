"""A running manager, one scripted workspace server registered with it, and clients of both eras."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientTimeout, TCPConnector

from support.clients.raw_clients import BOTH, SessionClient, StatelessClient
from support.processes.managers.manager_in_process import RunningManager, running_manager
from support.servers.scripted.scripted_workspace_server import ScriptedWorkspaceServer


@dataclass
class RegisteredSetup:
    """The participants. `http` is shared by all clients; its total time-out keeps tests bounded."""

    manager: RunningManager
    upstream: ScriptedWorkspaceServer
    http: ClientSession

    @property
    def pure_url(self) -> str:
        """The workspace endpoint of the scripted server's workspace."""
        return f"{self.manager.address}?cwd={self.upstream.root}"

    async def legacy(self, *, accept: str | None = BOTH, bound: bool = True) -> SessionClient:
        """A client with a session, by default bound to the scripted server's workspace."""
        client = await SessionClient.connect(self.http, self.manager.address, accept=accept)
        if bound:
            assert (await client.handshake(self.upstream.root)).payload["ok"] is True
        return client

    def modern(self, *, accept: str | None = BOTH, pure: bool = True) -> StatelessClient:
        """A stateless client, by default at the workspace endpoint of the scripted server's workspace."""
        return StatelessClient(self.http, self.pure_url if pure else self.manager.address, accept=accept)


@contextlib.asynccontextmanager
async def raw_http(seconds: float = 20.0) -> AsyncIterator[ClientSession]:
    """HTTP connections for raw clients; no request may take longer than `seconds`."""
    timeout = ClientTimeout(total=seconds)
    async with ClientSession(connector=TCPConnector(limit=0), timeout=timeout) as http:
        yield http


@contextlib.asynccontextmanager
async def registered_setup(folder: Path, **settings: Any) -> AsyncIterator[RegisteredSetup]:
    """The whole registered_setup below a temporary folder; keyword arguments are settings of the manager."""
    async with (
        running_manager(folder / "manager", **settings) as manager,
        raw_http() as http,
        registered_server(manager, http, folder / "scripted") as setup,
    ):
        yield setup


@contextlib.asynccontextmanager
async def registered_server(
    manager: RunningManager, http: ClientSession, root: Path
) -> AsyncIterator[RegisteredSetup]:
    """A new scripted server for a new workspace at this folder, registered with a manager that several tests share."""
    root.mkdir()
    upstream = ScriptedWorkspaceServer(root, manager.paths.control_socket)
    async with upstream.serving():
        yield RegisteredSetup(manager, upstream, http)
