"""Holds one list of an MCP server, as the server or the disk cache last gave it, and its issues."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import Final, Generic

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.issues import Issue, Level
from workspace_server.results import clean_text
from workspace_server.sources.feature_part import DefinitionGuard
from workspace_server.sources.mcp.lists import definitions
from workspace_server.sources.mcp.lists.definitions import SKILLS, TOOLS, Definitions, Item, ListKind
from workspace_server.sources.mcp.lists.list_cache import ListCache
from workspace_server.sources.mcp.paging import Pages

MAX_SEEN: Final = 10_000
"""Tools whose first definition is remembered; a server that always has new ones gets no further."""


class ServerList(Generic[Item]):
    """The last list of one kind.

    Attributes:
        kind: which list it is.
        items: its entries, None as long as no list is known.
        stale: whether it may be out of date: from the disk cache, or the server is down.
        error: why the last request failed; None while all is well.
        is_loaded: whether the disk cache was read.
        tried_at: when it was last requested, in monotonic seconds.
        settled: set while no request for it is in flight.
    """

    def __init__(
        self,
        kind: ListKind,
        source: str,
        read: Callable[[Sequence[msgspec.Raw]], Definitions[Item]],
        cache: ListCache | None,
        cache_key: str,
        *,
        guard: DefinitionGuard | None = None,
    ) -> None:
        """Nothing is known yet.

        Args:
            kind: which list it is.
            source: id of the source, for issues.
            read: what entries mean.
            cache: where the list is kept; None for nowhere.
            cache_key: what it is kept under.
            guard: decides which definitions are offered; None for those that are listed.
        """
        self.kind = kind
        self.items: Sequence[Item] | None = None
        self.stale = True
        self.error: str | None = None
        self.is_loaded = cache is None
        self.tried_at = -math.inf
        self.settled = asyncio.Event()
        self._source = source
        self._read = read
        self._cache = cache
        self._cache_key = cache_key
        self._saved: bytes | None = None
        self._taken_at: float | None = None
        self._definitions: Definitions[Item] = Definitions()
        self._first_seen: dict[str, str] = {}
        self._problems: tuple[Issue, ...] = ()
        self._guard = guard
        self._last: tuple[Pages, str] | None = None

    def original(self, name: str) -> str:
        """The server's own name of an entry."""
        return self._definitions.originals.get(name, name)

    def age_s(self) -> float:
        """How long ago the server said this; infinite for a list of an earlier life."""
        return math.inf if self._taken_at is None else time.monotonic() - self._taken_at

    async def load_cached(self) -> None:
        """Take the list of an earlier life, if there is one and the server has not been heard yet."""
        if self.is_loaded or self._cache is None:
            return
        saved = await asyncio.to_thread(self._cache.load, self._cache_key)
        if self.is_loaded:
            return  # another caller was faster
        self.is_loaded = True
        pages = Pages(self.kind.member)
        try:
            pages.take(msgspec.Raw(saved or b""))
        except ValueError:
            return
        if self.items is None:
            self._saved = saved
            await self._use(pages, "")

    async def take(self, pages: Pages, version: str = "") -> None:
        """Replace the list by what the server of this version says now, and keep it for a later life."""
        self._taken_at = time.monotonic()
        await self._use(pages, version)
        self.stale, self.error = False, None
        content = b'{"%s":[%s]}' % (
            self.kind.member.encode(),
            b",".join(jsonrpc.bytes_of(entry) for entry in pages.entries),
        )
        if self._cache is not None and content != self._saved:
            self._saved = content
            await asyncio.to_thread(self._cache.save, self._cache_key, content)

    async def settle_again(self) -> None:
        """Ask the guard again which definitions of the last list are offered, as the user decided."""
        if self._last is not None:
            self._first_seen.clear()  # what the user accepted is no news
            await self._use(*self._last)

    def failed(self, error: str) -> None:
        """The server did not say; the last list stays.

        Few servers have skills: a list of them that never had any is not missed.
        """
        self.stale = True
        if self.kind is not SKILLS or self.items:
            self.error = error

    def issues(self, *, is_alive: bool) -> list[Issue]:
        """What was left out of the list, what changed in it, and why it cannot be had.

        `is_alive`: whether the server's state does not say that by itself.
        """
        issues = list(self._problems)
        if self.error is not None and is_alive:
            text = f"Failed to fetch {self.kind.word}s: {clean_text(self.error)}"
            level: Level = "error" if self.items is None else "warning"
            details = f"source {self._source}"
            issues.append(Issue(level, "source", "SOURCE_UNAVAILABLE", text, details=details))
        return issues

    async def _use(self, pages: Pages, version: str) -> None:
        self._last = last = (pages, version)
        offered: Sequence[msgspec.Raw] = pages.entries
        of_guard: Sequence[Issue] = ()
        if self._guard is not None:
            offered, of_guard = await asyncio.to_thread(self._guard.settle, pages.entries, version)
            if self._last is not last:
                return  # there is a newer list
        entries = self._read(offered)
        issues = [*entries.issues, *of_guard]
        if self.kind is TOOLS:  # what a model is told to do; the other lists are expected to change
            for name, digest in entries.hashes.items():
                if len(self._first_seen) < MAX_SEEN:
                    self._first_seen.setdefault(name, digest)
            issues += definitions.changed(self._first_seen, entries.hashes, self._source)
        if pages.truncated is not None:
            text = f"The list of {self._source} is cut: {pages.truncated}"
            code, details = f"{self.kind.code}_LIST_TRUNCATED", f"source {self._source}"
            issues.append(Issue("error", self.kind.method, code, text, details=details))
        self._definitions = entries
        self.items = entries.items
        self._problems = tuple(issues)
