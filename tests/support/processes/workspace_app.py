"""Runs a workspace server in the test's event loop, on a real socket, with sources that a test provides."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientSession

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol.internal.launch import LaunchInstructions
from support.clients.stateless_requests import SECRET, Caller
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.gate import Gate
from workspace_server.catalog.registry import Registry
from workspace_server.catalog.toolset import Toolset
from workspace_server.config.model import Configuration
from workspace_server.http.routes import make_connections
from workspace_server.lifetime import Lifetime
from workspace_server.source import Source
from workspace_server.tasks.tasks import Tasks


@dataclass(slots=True)
class Serving:
    """A served workspace and a caller that knows its secret."""

    caller: Caller
    toolset: Toolset
    life: Lifetime
    session: ClientSession
    base: str

    async def health(self) -> dict[str, Any]:
        """What health says to its manager."""
        sent = {headers.SECRET: self.caller.secret}
        async with self.session.get(self.base + names.HEALTH_PATH, headers=sent) as response:
            found: dict[str, Any] = await response.json()
            return found


@asynccontextmanager
async def serving(
    sources: Sequence[Source],
    *,
    settings: dict[str, Any] | None = None,
    configuration: Configuration | None = None,
    gate: Gate | None = None,
    tasks: Tasks | None = None,
    keep_alive_s: float = 15.0,
    drain_s: float = 5.0,
    at_once: bool = True,
) -> AsyncIterator[Serving]:
    """Serve these sources until the block ends; `at_once` is whether the configuration is known so."""
    launch = LaunchInstructions("ws-1", "/somewhere", "i-1", "nonce-1", SECRET, -1, 60.0, settings or {})
    in_force = configuration or Configuration()

    async def configure() -> Configuration:
        return in_force

    life, toolset = (
        Lifetime(60.0, drain_s),
        Toolset(Registry(sources), configure, lambda: in_force if at_once else None),
    )
    calls = Calls(toolset, gate, tasks=tasks)
    connections = make_connections(launch, "1.2.3", calls, life, keep_alive_s=keep_alive_s)
    sock = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{sock.getsockname()[1]}"
    await connections.listen(sock)
    try:
        async with ClientSession() as session:
            yield Serving(Caller(session, f"{base}/mcp"), toolset, life, session, base)
    finally:
        life.stop("the test is over")
        await connections.close()
        await calls.close()
        await toolset.close()
