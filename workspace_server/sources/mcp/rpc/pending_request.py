"""Holds a request in flight: its client, and the events that its caller has not taken yet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.rpc.client import Client
from workspace_server.sources.mcp.rpc.messages import InvalidResponse, Response

MAX_PROGRESS: Final = 256
"""Notifications of one call that wait for a slow caller; further ones are dropped."""
MAX_PROGRESS_BYTES: Final = 4 * 1024 * 1024
"""Their bytes together; a single one may be larger."""

_Notification = tuple[str, Mapping[str, msgspec.Raw]]
Event = Response | InvalidResponse | Unavailable | _Notification


T = TypeVar("T")


class EventQueue(Generic[T]):
    """A queue with one reader."""

    __slots__ = ("_coming", "_events")

    def __init__(self) -> None:
        self._events: deque[T] = deque()
        self._coming: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: T) -> None:
        """Add an event."""
        self._events.append(event)
        coming, self._coming = self._coming, None
        if coming is not None and not coming.done():  # it is, where the reader was cancelled
            coming.set_result(None)

    async def get(self) -> T:
        """Remove and return the oldest event; wait for one if there is none."""
        while not self._events:
            self._coming = asyncio.get_running_loop().create_future()
            await self._coming
        return self._events.popleft()


@dataclass(slots=True)
class PendingRequest:
    """One request in flight; `client` is None for requests of our own."""

    client: Client | None
    _size: int = 0
    _events: EventQueue[Event] = field(default_factory=EventQueue)

    def complete(self, event: Response | InvalidResponse | Unavailable) -> None:
        """Add the response, or why there is none."""
        self._events.put(event)

    def wants(self, method: str, params: Mapping[str, msgspec.Raw]) -> bool:
        """Whether its client wants this notification."""
        return self.client is not None and self.client.wants(method, params)

    def notify(self, method: str, params: Mapping[str, msgspec.Raw]) -> bool:
        """Add a notification, in order with the response; False if too much waits already."""
        event = method, params
        size = self._size + _bytes(event)
        if len(self._events) >= MAX_PROGRESS or (self._size and size > MAX_PROGRESS_BYTES):
            return False
        self._size = size
        self._events.put(event)
        return True

    async def next(self) -> Event:
        """Wait for the next event and take it."""
        event = await self._events.get()
        if isinstance(event, tuple):
            self._size -= _bytes(event)
        return event


def _bytes(event: _Notification) -> int:
    return sum(len(jsonrpc.bytes_of(raw)) for raw in event[1].values())
