"""The open connections of a server: admits them, runs their tasks, closes them, and holds what they share."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Generic, Protocol

from lm_tools_bridge.http_server.byte_budget import ByteBudget
from lm_tools_bridge.http_server.connection_state import State
from lm_tools_bridge.http_server.deadline import Deadlines
from lm_tools_bridge.http_server.limits import Limits
from lm_tools_bridge.http_server.request_head import Head, HeadReader


class OpenConnection(Protocol):
    """A connection, as far as this module needs it."""

    @property
    def state(self) -> State:
        """What it does now."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered on it."""

    def abort(self) -> None:
        """Close it without flushing."""


class Connections:
    """The open connections of one server.

    Attributes:
        limits: their deadlines and the cap on their number.
        open: those that are open.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.open: set[OpenConnection] = set()
        self._refused: set[OpenConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def admit(self, connection: OpenConnection) -> bool:
        """Add a new connection; return False if there are too many."""
        cap = self.limits.connections
        if cap is not None and len(self.open) >= cap:
            return False
        self.open.add(connection)
        return True

    def may_refuse(self, connection: OpenConnection) -> bool:
        """Whether one too many gets an answer before it is closed; False if as many are being answered."""
        if len(self._refused) >= (self.limits.connections or 0):
            return False
        self._refused.add(connection)
        return True

    def discard(self, connection: OpenConnection) -> None:
        """Remove a closed connection. Idempotent."""
        self.open.discard(connection)
        self._refused.discard(connection)

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that ends with the server at the latest."""
        task = asyncio.get_running_loop().create_task(work, name="request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Close all but delegated connections; requests under way get `limits.shutdown_s`. Idempotent."""
        for connection in self._own():
            if connection.is_idle:
                connection.abort()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.limits.shutdown_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in self._own():
            connection.abort()

    def _own(self) -> list[OpenConnection]:
        return [connection for connection in self.open if connection.state is not State.DELEGATED]


@dataclass(frozen=True, slots=True)
class ServerContext(Generic[Head]):
    """What the connections of one server share.

    Attributes:
        heads: parses and admits heads.
        body_cap: the most bytes of a body.
        connections: the open connections, with their limits.
        deadlines: those of all connections.
        buffers: the bytes in their large buffers.
    """

    heads: HeadReader[Head]
    body_cap: int
    connections: Connections
    deadlines: Deadlines
    buffers: ByteBudget
