"""How the manager's application is served: the one place for daemon and tests, so that both get the same.

Which addresses are bound, and by whom, is the daemon's: sockets are handed in.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Iterable

from aiohttp import web

from manager.routing.door import DoorRules
from manager.web.connections import Connections
from manager.web.door import CONNECTIONS, install_door
from manager.web.fast_path import FastPath
from manager.web.incoming import Incoming
from manager.web.limits import Limits
from manager.web.peers import PeerCheck
from manager.web.refusal_log import RefusalLog


class OncePerSecond(logging.Filter):
    """Lets one record per second through: what aiohttp says about broken requests can be provoked at will."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._next = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this record is the first of its second."""
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + 1.0
        return True


_server_log = logging.getLogger("manager.web.aiohttp")
_server_log.addFilter(OncePerSecond())


def make_runner(
    app: web.Application,
    rules: DoorRules,
    *,
    limits: Limits = Limits(),  # noqa: B008  a frozen value
    peer_check: PeerCheck | None = None,
) -> web.AppRunner:
    """A runner for the application with the door installed; not set up yet.

    A handler is cancelled when its caller disconnects. Serve it with `listen`, which adds the front; a runner
    served by a plain aiohttp site keeps the door, but has no head deadline, connection cap or MCP routes.

    Raises:
        ValueError: a route of the application answers HEAD, OPTIONS or every method.
    """
    connections = Connections(rules, limits, RefusalLog(), peer_check)
    install_door(app, connections)

    async def end(_: web.Application) -> None:
        await connections.close()

    app.on_shutdown.append(end)
    return web.AppRunner(
        app,
        handler_cancellation=True,
        access_log=None,
        logger=_server_log,
        auto_decompress=False,
        keepalive_timeout=limits.keepalive_s,
        tcp_keepalive=True,
        lingering_time=limits.linger_s,
        shutdown_timeout=limits.shutdown_s,
        # At or above the door's own caps, so that the door's 431 comes first.
        max_line_size=rules.head_cap,
        max_field_size=rules.head_cap,
        max_headers=rules.field_cap + 1,
    )


async def listen(
    runner: web.AppRunner,
    sockets: Iterable[socket.socket],
    serve: Callable[[Incoming], None] | None = None,
    fast: FastPath | None = None,
) -> list[asyncio.Server]:
    """Set the runner up and accept on these bound sockets, with the front on each connection.

    To end: `close()` every server, then `await runner.cleanup()`, which ends the connections.

    Args:
        serve: answers a request at an MCP route; without it, all requests are the application's.
        fast: knows which of these requests need not be served.
    """
    await runner.setup()
    server = runner.server
    assert server is not None  # noqa: S101  set by setup()
    factory = runner.app[CONNECTIONS].factory(server, serve, fast)
    loop = asyncio.get_running_loop()
    return [await loop.create_server(factory, sock=sock) for sock in sockets]
