"""The standing stream of a legacy session (GET): what the manager has to say without being asked.

News wait here while nobody listens, the newest of each kind only: a session that is idle costs nothing that
grows, and one whose client is away or slow loses nothing that matters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from manager.legacy.event_ids import EventId
from manager.legacy.stream import Outlet, Stream
from protocol import jsonrpc, names

MAX_NEWS: Final = 256
"""Most news that wait; beyond that the oldest of a resource makes room."""
_CHANGED: Final = {method: jsonrpc.notification(method) for method in names.LISTS_CHANGED}


class Standing:
    """The one standing stream of a session, with or without a connection."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._news: dict[str, bytes] = {}
        self._stirred = asyncio.Event()
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        """Whether somebody listens."""
        return self.stream.outlet is not None

    @property
    def is_blank(self) -> bool:
        """Whether nothing would be lost with it."""
        return not (self.is_open or self._news or self.stream.sent)

    def tell(self, key: str, message: bytes) -> None:
        """Say this, now or to the next that listens; of messages with one key the newest is enough."""
        self._news[key] = message
        if len(self._news) > MAX_NEWS:
            del self._news[next(one for one in self._news if one not in _CHANGED)]
        self._stirred.set()

    def announce_lists(self, methods: Iterable[str] = names.LISTS_CHANGED) -> None:
        """Say that lists changed, by default all."""
        for method in methods:
            self.tell(method, _CHANGED[method])

    def followed(self, last: EventId | None) -> int | None:
        """The number of the last event a client has, where all that followed it is still here, else None."""
        if last is None or last.stream != self.stream.name:
            return None
        return last.event if self.stream.lost <= last.event <= self.stream.sent else None

    async def serve(self, outlet: Outlet, after: int | None = None) -> None:
        """Write to a connection that has claimed the stream, until it is taken over or the stream closed.

        Args:
            after: the number of the last event the client has; None for a client that has none.
        """
        if after is None:
            await self.stream.begin(outlet)
        else:
            await self.stream.resume(outlet, after)
        while self.stream.outlet is outlet and not self._is_closed:
            self._stirred.clear()
            await self._deliver()
            await self._stirred.wait()

    def close(self) -> None:
        """End it, with its session or with the manager."""
        self._is_closed = True
        self._stirred.set()

    async def _deliver(self) -> None:
        """Say what is new; what no connection took is still new."""
        for key, message in list(self._news.items()):
            if not await self.stream.send(message):
                return
            if self._news.get(key) is message:
                del self._news[key]
