"""The standing stream of a legacy session (GET): what the manager has to say without being asked.

News wait here while nobody listens, the newest of each kind only: a session that is idle costs nothing that
grows, and one whose client is away or slow loses nothing that matters.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

from manager.sessions.event_ids import EventId
from manager.sessions.stream import EventSink, Stream
from protocol import jsonrpc, names

MAX_NEWS: Final = 256
"""Most news that wait; beyond that the oldest of a resource makes room."""
_CHANGED: Final = {method: jsonrpc.notification(method) for method in names.LISTS_CHANGED}


class ServerStream:
    """The one standing stream of a session, with or without a connection.

    Nobody waits for news here: they are written when they come, by whom they come from. A client that does
    not keep up gets the newest when it does.
    """

    __slots__ = ("_is_stirred", "_news", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._news: dict[str, bytes] | None = None  # mostly there are none
        self._is_stirred = False  # whether it is about to be delivered

    @property
    def is_open(self) -> bool:
        """Whether somebody listens."""
        return self.stream.sink is not None

    @property
    def is_blank(self) -> bool:
        """Whether nothing would be lost with it."""
        return not (self.is_open or self._news or self.stream.sent)

    def tell(self, key: str, message: bytes) -> None:
        """Say this, now or to the next that listens; of messages with one key the newest is enough."""
        news = self._news = self._news or {}
        news[key] = message
        if len(news) > MAX_NEWS:
            del news[next(one for one in news if one not in _CHANGED)]
        self._stir()

    def announce_lists(self, methods: Iterable[str] = names.LISTS_CHANGED) -> None:
        """Say that lists changed, by default all."""
        for method in methods:
            self.tell(method, _CHANGED[method])

    def resume_point(self, last: EventId | None) -> int | None:
        """The number of the last event a client has, where all that followed it is still here, else None."""
        if last is None or last.stream != self.stream.name:
            return None
        return last.event if self.stream.lost <= last.event <= self.stream.sent else None

    def begin(self, sink: EventSink, after: int | None = None) -> None:
        """Begin to write to a connection that has claimed the stream.

        Args:
            after: the number of the last event the client has; None for a client that has none.
        """
        if after is None:
            self.stream.begin(sink)
        else:
            self.stream.resume(sink, after)
        self._stir()

    def close(self) -> None:
        """End it in good order, with its session or with the manager."""
        sink = self.stream.sink
        self._deliver()
        if sink is not None and self.stream.leave(sink):
            with contextlib.suppress(ConnectionError):
                sink.close()

    def _stir(self) -> None:
        """Deliver soon: what is told in the meantime, or told anew, is delivered with it."""
        if self._news and self.is_open and not self._is_stirred:
            self._is_stirred = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        """Say what is new; what no connection took is still new."""
        self._is_stirred = False
        news = self._news or {}
        for key, message in list(news.items()):
            sink = self.stream.sink
            if sink is None:
                return
            if sink.is_full:
                self._is_stirred = True
                sink.when_writable(self._deliver)
                return
            if not self.stream.put(message):
                return
            del news[key]
        self._news = None
