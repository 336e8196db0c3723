"""The standing stream of a legacy session (GET): what the manager has to say without being asked.

One stream a session; a slow reader loses nothing that matters, because only the newest announcement of
each kind is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from protocol import jsonrpc, names, sse


class Stream:
    """What waits to be written to one session's stream."""

    def __init__(self) -> None:
        self._waiting: dict[str, bytes] = {}
        self._news = asyncio.Event()
        self.is_closed = False

    def announce_lists(self, methods: Iterable[str] = names.LISTS_CHANGED) -> None:
        """Say that lists changed, by default all; repeated news is said once."""
        for method in methods:
            self._waiting[method] = sse.encode(jsonrpc.notification(method))
        self._news.set()

    def close(self) -> None:
        """End the stream: the session is over, or the manager stops."""
        self.is_closed = True
        self._news.set()

    async def next(self, keep_alive_s: float) -> bytes | None:
        """The next bytes to write: news, or a comment after so long a silence; None at the end."""
        try:
            async with asyncio.timeout(keep_alive_s):
                await self._news.wait()
        except TimeoutError:
            return sse.KEEP_ALIVE
        self._news.clear()
        if self.is_closed:
            return None
        chunk = b"".join(self._waiting.values())
        self._waiting.clear()
        return chunk


class Streams:
    """The open streams by session id."""

    def __init__(self) -> None:
        self._open: dict[str, Stream] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, session: str) -> Stream | None:
        """A stream for the session, or None when it has one already: the first stays (M-29)."""
        if session in self._open:
            return None
        stream = self._open[session] = Stream()
        return stream

    def get(self, session: str) -> Stream | None:
        """The session's open stream."""
        return self._open.get(session)

    def forget(self, session: str) -> None:
        """The stream's connection has ended."""
        self._open.pop(session, None)

    def close_all(self) -> None:
        """End every stream."""
        for stream in self._open.values():
            stream.close()
