"""Refreshes the lists of an MCP server, all requested ones at once, one refresh at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from workspace_server import log
from workspace_server.results import well_formed
from workspace_server.sources.feature_part import DefinitionGuard
from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.lists import definitions
from workspace_server.sources.mcp.lists.definitions import (
    OTHER_KINDS,
    PROMPTS,
    RESOURCES,
    SKILLS,
    TEMPLATES,
    TOOLS,
    Definitions,
    ListKind,
)
from workspace_server.sources.mcp.lists.list_cache import ListCache
from workspace_server.sources.mcp.lists.server_list import ServerList
from workspace_server.sources.mcp.paging import Pages
from workspace_server.sources.mcp.session import Session
from workspace_server.sources.mcp.settings import SourceSettings
from workspace_server.tool import Entry, SourceOfferings, Tool

LIST_AGAIN_S: Final = 5.0
"""Shortest time in seconds between two requests for a list that failed."""
OTHER_LISTS_S: Final = 10.0
"""Time limit of all lists but tools, in seconds."""
FIRST_OTHER_LISTS_S: Final = 0.5
"""How long listing tools waits for the first lists of other kinds, in seconds."""

WithSession = Callable[[Callable[[Session], Awaitable[None]]], Awaitable[None]]


class ServerLists:
    """The lists of one server.

    Attributes:
        tools: the list of its tools.
        others: its other lists.
        instructions: what it says of itself for models.
    """

    def __init__(
        self,
        source: str,
        offer: SourceSettings,
        *,
        with_session: WithSession,
        on_refresh: Callable[[], None],
        cache: ListCache | None,
        cache_key: str,
        guard: DefinitionGuard | None = None,
    ) -> None:
        """Nothing is asked for yet.

        Args:
            source: id of the source, for issues and logs.
            offer: what the configuration says of its tools.
            with_session: does something with a session; raises `Unavailable` where there is none.
            on_refresh: called after each list that came or failed.
            cache: where the last good lists are kept; None for nowhere.
            cache_key: what the keys they are kept under begin with.
            guard: decides which definitions of tools are offered; it needs a `cache`.
        """

        def read_tools(entries: Sequence[msgspec.Raw]) -> Definitions[Tool]:
            return definitions.read(
                entries,
                source,
                visibility=offer.visibility,
                visibilities=offer.visibilities,
                timeout_s=offer.timeout_s,
                task=offer.task,
                apps=offer.apps,
            )

        def other(kind: ListKind) -> ServerList[Entry]:
            read = partial(definitions.read_others, source=source, kind=kind)
            return ServerList(kind, source, read, cache, f"{cache_key}-{kind.word}s")

        if guard is not None and cache is not None:
            guard.bind(cache, cache_key, self._settle_again)
        self.tools = ServerList(TOOLS, source, read_tools, cache, cache_key, guard=guard)
        self.others = {kind: other(kind) for kind in OTHER_KINDS}
        self.instructions = ServerInstructions(cache, f"{cache_key}-instructions")
        self._source = source
        self._with_session = with_session
        self._on_news = on_refresh
        self._wanted: set[ListKind] = set()
        self._under_way: set[ListKind] = set()
        self._task: asyncio.Task[None] | None = None
        self._settling: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def all(self) -> Sequence[ServerList[Any]]:
        """Every list, tools first."""
        return (self.tools, *self.others.values())

    def known_offerings(self) -> SourceOfferings:
        """All but the tools, as far as it is known."""
        of = {kind: tuple(server_list.items or ()) for kind, server_list in self.others.items()}
        return SourceOfferings(of[PROMPTS], of[RESOURCES], of[TEMPLATES], of[SKILLS])

    async def load_cached(self) -> None:
        """Load the lists from the disk cache where nothing newer is known."""
        for server_list in self.all:
            await server_list.load_cached()
        await self.instructions.load_cached()

    def request(self, kinds: Iterable[ListKind], *, again: bool = False) -> None:
        """Request these lists; with `again` also those with a request in flight."""
        requested_kinds = set(kinds) if again else set(kinds) - self._under_way
        for server_list in self.all:
            if server_list.kind in requested_kinds:
                server_list.settled.clear()
        self._wanted |= requested_kinds
        if self._wanted and self._task is None:
            self._task = asyncio.create_task(self._refresh_all(), name=f"list-{self._source}")

    async def wait_for_others(self) -> None:
        """Wait a moment for lists that are requested for the first time."""
        unread_lists = [
            server_list
            for server_list in self.others.values()
            if server_list.items is None and not server_list.settled.is_set()
        ]
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_OTHER_LISTS_S if unread_lists else None):
                for server_list in unread_lists:
                    await server_list.settled.wait()

    async def stop(self) -> None:
        """Cancel what is in flight and request nothing more. Idempotent."""
        self._closed = True
        tasks = [task for task in (self._task, self._settling) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _settle_again(self) -> None:
        """Settle the last list of tools again, because the user decided something."""
        if self._closed or (self._settling is not None and not self._settling.done()):
            return
        self._settling = asyncio.create_task(self._settle_tools(), name=f"settle-{self._source}")

    async def _settle_tools(self) -> None:
        await self.tools.settle_again()
        self._on_news()

    async def _refresh_all(self) -> None:
        try:
            while self._wanted:
                self._under_way, self._wanted = self._wanted, set()
                await self._refresh(
                    [server_list for server_list in self.all if server_list.kind in self._under_way]
                )
        finally:
            self._under_way, self._task = set(), None
            for server_list in self.all:
                server_list.settled.set()

    async def _refresh(self, lists: Sequence[ServerList[Any]]) -> None:
        """Request some lists at the same time over one session."""
        missing: dict[ServerList[Any], str | None] = dict.fromkeys(lists)
        for server_list in lists:
            server_list.tried_at = time.monotonic()

        async def ask(session: Session) -> None:
            await self.instructions.take(session.handshake_result.instructions)
            refreshes = [self._refresh_one(session, server_list, missing) for server_list in lists]
            for fault in await asyncio.gather(*refreshes, return_exceptions=True):
                if fault is not None:
                    raise fault

        try:
            if self._closed:
                raise Unavailable("it was stopped")
            await self._with_session(ask)
        except Unavailable as failure:
            self._failed(missing, failure.text)
        except Exception as fault:  # noqa: BLE001  a list that cannot be had is a state
            log.fault("source_list_failed", fault, source=self._source)
            self._failed(missing, f"{type(fault).__name__} while listing")

    async def _refresh_one(
        self, session: Session, server_list: ServerList[Any], missing: dict[ServerList[Any], str | None]
    ) -> None:
        kind = server_list.kind
        pages = Pages(kind.member)
        try:
            if kind is TOOLS:
                pages = await session.list_all(kind.method, kind.member)
            elif kind.is_declared(session.handshake_result.capabilities):
                pages = await session.list_all(kind.method, kind.member, OTHER_LISTS_S)
        except Unavailable as failure:
            missing[server_list] = failure.text
            raise
        await server_list.take(pages, str(session.handshake_result.server_info.get("version", "")))
        missing.pop(server_list, None)
        self._settled(server_list)

    def _failed(self, missing: Mapping[ServerList[Any], str | None], error: str) -> None:
        for server_list, own in missing.items():
            server_list.failed(own or error)
            self._settled(server_list)

    def _settled(self, server_list: ServerList[Any]) -> None:
        self._under_way.discard(server_list.kind)
        if server_list.kind not in self._wanted:
            server_list.settled.set()
        self._on_news()


# They are shown before the server runs: its lists are known then, too.

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
