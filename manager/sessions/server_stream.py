"""A session's server stream (GET): notifications that the manager sends on its own.

MCP 2025-11-25, Transports: Listening for Messages from the Server. While the client is disconnected or reads
too slowly, only the newest notification of each kind waits, so that memory per session is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

from lm_tools_bridge.protocol import jsonrpc, names
from manager.sessions.event_ids import EventId
from manager.sessions.stream import EventSink, Stream

MAX_PENDING: Final = 256
"""Most notifications that wait; beyond that, the oldest about a resource is dropped."""
_CHANGED: Final = {method: jsonrpc.notification(method) for method in names.LISTS_CHANGED}


class ServerStream:
    """The one server stream of a session, with or without a connection. It needs no task of its own."""

    __slots__ = ("_is_scheduled", "_pending", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._pending: dict[str, bytes] | None = None  # mostly none
        self._is_scheduled = False  # whether a delivery is scheduled

    @property
    def is_open(self) -> bool:
        """Whether a connection is attached."""
        return self.stream.sink is not None

    @property
    def is_unused(self) -> bool:
        """Whether it can be dropped without losing anything."""
        return not (self.is_open or self._pending or self.stream.sent)

    def notify(self, key: str, message: bytes) -> None:
        """Send a notification, now or on the next connection. A newer one with the same key replaces it."""
        pending = self._pending = self._pending or {}
        pending[key] = message
        if len(pending) > MAX_PENDING:
            del pending[next(one for one in pending if one not in _CHANGED)]
        self._schedule()

    def notify_lists_changed(self, methods: Iterable[str] = names.LISTS_CHANGED) -> None:
        """Send `list_changed` notifications, by default for all lists."""
        for method in methods:
            self.notify(method, _CHANGED[method])

    def resume_point(self, last: EventId | None) -> int | None:
        """The number of the client's last event if all later ones are still buffered, else None."""
        if last is None or last.stream != self.stream.name:
            return None
        return last.event if self.stream.lost <= last.event <= self.stream.sent else None

    def begin(self, sink: EventSink, after: int | None = None) -> None:
        """Start writing to the attached connection.

        Args:
            after: number of the last event that the client has received, None for a new stream.
        """
        if after is None:
            self.stream.begin(sink)
        else:
            self.stream.resume(sink, after)
        self._schedule()

    def close(self) -> None:
        """Deliver what waits and end the connection, because the session or the manager ends."""
        sink = self.stream.sink
        self._deliver()
        if sink is not None and self.stream.detach(sink):
            with contextlib.suppress(ConnectionError):
                sink.close()

    def _schedule(self) -> None:
        """Deliver in the next loop iteration, together with what is added until then."""
        if self._pending and self.is_open and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        """Write the waiting notifications; those that no connection took keep waiting."""
        self._is_scheduled = False
        pending = self._pending or {}
        for key, message in list(pending.items()):
            sink = self.stream.sink
            if sink is None:
                return
            if sink.is_full:
                self._is_scheduled = True
                sink.when_writable(self._deliver)
                return
            if not self.stream.put(message):
                return
            del pending[key]
        self._pending = None
