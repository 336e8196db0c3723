"""Holds the instructions of an MCP server, as its handshake or the disk cache last gave them.

They are shown before the server runs: its lists are known then, too.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from workspace_server.results import well_formed
from workspace_server.sources.mcp.lists.list_cache import ListCache

MAX_KEPT: Final = 8 * 1024
"""Characters that are kept: models are shown fewer."""


class ServerInstructions:
    """The last known instructions of one server.

    Attributes:
        text: as they came; None for none, or none known.
    """

    def __init__(self, cache: ListCache | None, cache_key: str) -> None:
        """Nothing is known yet. `cache_key` is what they are kept under; a `cache` of None keeps nothing."""
        self.text: str | None = None
        self._cache = cache
        self._cache_key = cache_key
        self._is_loaded = cache is None
        self._saved: str | None = None

    async def load_cached(self) -> None:
        """Take those of an earlier life, if the server has not been heard yet."""
        if self._is_loaded or self._cache is None:
            return
        saved = await asyncio.to_thread(self._cache.load, self._cache_key)
        if self._is_loaded:
            return  # the server, or another caller, was faster
        self._is_loaded = True
        try:
            self.text = self._saved = msgspec.json.decode(saved or b"null", type=str | None)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return

    async def take(self, text: str | None) -> None:
        """Take what the server says now, and keep it for a later life."""
        self._is_loaded = True
        self.text = None if text is None else well_formed(text[:MAX_KEPT])
        if self._cache is not None and self.text != self._saved:
            self._saved = self.text
            await asyncio.to_thread(self._cache.save, self._cache_key, msgspec.json.encode(self.text))
