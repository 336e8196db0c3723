"""An event sink that keeps what is written to it in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from lm_tools_bridge.protocol import sse


class Recorder:
    """Takes events until it is `gone` or aborted; where there is a `gate`, it is full until that is set."""

    def __init__(self) -> None:
        self.written = b""
        self.gone = False
        self.closed = False
        self.gate: asyncio.Event | None = None
        self._news = asyncio.Event()
        self._waiting: set[asyncio.Task[None]] = set()

    @property
    def is_full(self) -> bool:
        return self.gate is not None and not self.gate.is_set()

    def put(self, data: bytes) -> None:
        if self.gone:
            raise ConnectionResetError
        self.written += data
        self._news.set()

    async def write(self, data: bytes) -> None:
        self.put(data)
        if self.gate is not None:
            await self.gate.wait()
        if self.gone:
            raise ConnectionResetError

    def when_writable(self, call: Callable[[], None]) -> None:
        async def wait() -> None:
            assert self.gate is not None
            await self.gate.wait()
            call()

        task = asyncio.create_task(wait())
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    def close(self) -> None:
        self.closed = True

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
