"""The connections of the manager's port: how many there may be, what they share, and how they end.

What happens on one of them is `connection.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from http_server.deadline import Deadlines
from manager.http.keep_alives import KeepAlives
from manager.http.limits import Limits
from manager.http.request import HttpRequest
from manager.listener.connection import ClientConnection
from manager.listener.connection_context import ConnectionContext
from manager.listener.peer_identity import PeerCheck
from manager.listener.refusal_log import RefusalLog
from manager.route_cache.route_cache import FastPath
from manager.routing.request_heads.admission import AdmissionRules
from manager.routing.request_heads.reader import Heads


class Connections:
    """The open connections of one manager, and what holds for all of them."""

    def __init__(
        self, rules: AdmissionRules, limits: Limits, log: RefusalLog, peer_check: PeerCheck | None = None
    ) -> None:
        self.rules = rules
        self.limits = limits
        self.log = log
        self.peer_check = peer_check
        self.open: set[ClientConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def factory(
        self,
        server: Callable[[], asyncio.Protocol],
        serve: Callable[[HttpRequest], None] | None,
        fast: FastPath | None = None,
    ) -> Callable[[], ClientConnection]:
        """A protocol factory for connections.

        Args:
            server: makes the protocol that serves a request which is not for an MCP route.
            serve: answers a request at an MCP route; without it, all requests are the server's.
            fast: knows which of these requests need not be served.
        """
        loop = asyncio.get_running_loop()
        shared = ConnectionContext(
            Heads(self.rules),
            self.rules,
            self.limits,
            self.log,
            self.peer_check,
            server,
            serve,
            fast,
            self._admit,
            self.open.discard,
            self._run,
            KeepAlives(loop),
            Deadlines(loop),
        )
        return lambda: ClientConnection(shared)

    async def close(self) -> None:
        """End all connections but the server's own; what is being answered gets its time first."""
        for one in self._ours():
            if one.is_idle:
                one.abort()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.limits.shutdown_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for one in self._ours():
            one.abort()

    def _ours(self) -> list[ClientConnection]:
        return [one for one in self.open if not one.is_handed_over]

    def _admit(self, front: ClientConnection) -> bool:
        """Take a new connection in, or say that there are too many."""
        if len(self.open) >= self.limits.connections:
            return False
        self.open.add(front)
        return True

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name="request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
