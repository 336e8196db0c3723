"""Sets the log level of a session server to the most verbose level that any request in flight wants.

The server may therefore log more than one client wants; `mcp/rpc/client.py` filters what each client gets. A
lower level is set only with the next request that wants one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from lm_tools_bridge.protocol.names import LOG_LEVELS

SET_S: Final = 5.0
"""How long a request waits for the server to set the level, in seconds."""


class LogLevel:
    """The log level of one session. `set_level` sends it to the server."""

    def __init__(self, set_level: Callable[[str], Awaitable[object]]) -> None:
        self._set_level = set_level
        self._wanted: list[str] = []
        self._set: str | None = None
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def wanted(self, level: str | None) -> AsyncIterator[None]:
        """Make the server log at least this level during the block; None changes nothing."""
        if level is None:
            yield
            return
        self._wanted.append(level)
        try:
            await self._sync()
            yield
        finally:
            self._wanted.remove(level)

    async def _sync(self) -> None:
        async with self._lock:
            level = min(self._wanted, key=LOG_LEVELS.index)
            if level != self._set:
                self._set = level
                await self._set_level(level)
