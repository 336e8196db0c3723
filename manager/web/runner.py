"""How the manager's port and control socket are served: the one place for daemon and tests, so that both get
the same.

Requests at MCP routes are served at once; what serves the others is loaded for the first of them (`late.py`).
Which addresses are bound, and by whom, is the daemon's: sockets are handed in.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from manager.routing.door import DoorRules
from manager.web.connections import Connections
from manager.web.fast_path import FastPath
from manager.web.incoming import Incoming
from manager.web.late import LateServer
from manager.web.limits import Limits
from manager.web.measures import Take
from manager.web.peers import PeerCheck
from manager.web.refusal_log import RefusalLog
from manager.web.services import Services

if TYPE_CHECKING:
    from aiohttp import web

Show = Callable[[], dict[str, Any]]
"""What the status shows."""


class Runner:
    """Serves the port, with the front on each connection, and an application behind it.

    Attributes:
        connections: those that are open.
    """

    def __init__(
        self,
        make_app: Callable[[], web.Application],
        rules: DoorRules,
        *,
        limits: Limits = Limits(),  # noqa: B008  a frozen value
        peer_check: PeerCheck | None = None,
    ) -> None:
        """`make_app` makes the application; called once, in a thread, when a request is for it."""
        self._make_app = make_app
        self.connections = Connections(rules, limits, RefusalLog(), peer_check)
        self._late = LateServer(self._load)

    async def listen(
        self,
        sockets: Iterable[socket.socket],
        serve: Callable[[Incoming], None] | None = None,
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

    def _load(self) -> web.AppRunner:
        from manager.web.pages import port_runner  # noqa: PLC0415  aiohttp comes with it

        return port_runner(self._make_app(), self.connections)


def later_app(services: Services, status: Show, measures: Take) -> Callable[[], web.Application]:
    """What makes the port's application."""

    def load() -> web.Application:
        from manager.web.app import make_app  # noqa: PLC0415  aiohttp comes with it

        return make_app(services, status, measures)

    return load


def control_server(services: Services, status: Show, measures: Take) -> LateServer:
    """What serves the control socket; its caller accepts there, and closes it."""

    def load() -> web.AppRunner:
        from manager.web.pages import control_runner  # noqa: PLC0415  aiohttp comes with it

        return control_runner(services, status, measures)

    return LateServer(load)
