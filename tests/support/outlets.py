"""A connection that an event stream is written to, kept in memory."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from protocol import sse


class Recorder:
    """Takes events until it is `gone` or aborted; where there is a `gate`, only while that is set."""

    def __init__(self) -> None:
        self.written = b""
        self.gone = False
        self.gate: asyncio.Event | None = None
        self._news = asyncio.Event()

    async def write(self, data: bytes) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.gone:
            raise ConnectionResetError
        self.written += data
        self._news.set()

    def abort(self) -> None:
        self.gone = True
        if self.gate is not None:
            self.gate.set()

    @property
    def ids(self) -> list[str | None]:
        """The ids of all events, those that only prime a client included."""
        return [one.id for one in sse.Decoder().feed(self.written)]

    @property
    def messages(self) -> list[Any]:
        """All messages that were written."""
        return [json.loads(one.data) for one in sse.Decoder().feed(self.written) if one.data]

    @property
    def methods(self) -> list[str]:
        """The methods of all messages that were written."""
        return [one["method"] for one in self.messages]

    async def count(self, messages: int) -> None:
        """Wait for so many messages."""
        async with asyncio.timeout(5):
            while len(self.messages) < messages:
                self._news.clear()
                await self._news.wait()
