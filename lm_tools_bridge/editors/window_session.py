"""A session with a window, whose tool lists show open objects: the schemas are read from its resources.

A session is opened for each call that needs one, and never by itself: a window that closes is gone, and one
that opens is found by looking, so there is nothing to retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from workspace_server.source import SourceState
from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.paging import Pages
from workspace_server.sources.mcp.remote.failures import HttpFailure
from workspace_server.sources.mcp.retry_policy import CallVerdict, Retry
from workspace_server.sources.mcp.session import REQUEST_S, Session
from workspace_server.tool import RpcError

PLACES: Final = ("lm-tools://schema/", "lm-tools://tool/")
"""Where windows have the schema of a tool: up to version 1.0.139 of the extension, and after."""
AT_ONCE: Final = 8
"""Schemas that are asked for together. A window answers all requests in one thread, which others wait for."""
SCHEMA_S: Final = 5.0
"""A window that is busy answers within seconds; without its schema, a tool keeps that of the list."""
MAX_SCHEMA: Final = 256 * 1024  # characters; the schema of a tool has a few thousand


class WindowSession(Session):
    """A `Session` whose tools have their schemas."""

    unread_schemas: Sequence[str] = ()
    """The tools of the last list whose schema could not be read; they keep the one of the list."""

    async def list_all(self, method: str, member: str, timeout_s: float = REQUEST_S) -> Pages:
        """As `Session.list_all`."""
        pages = await super().list_all(method, member, timeout_s)
        if method == names.TOOLS_LIST:
            pages.entries = await self._with_schemas(pages.entries)
        return pages

    async def _with_schemas(self, entries: Sequence[msgspec.Raw]) -> list[msgspec.Raw]:
        turn, unread = asyncio.Semaphore(AT_ONCE), []

        async def complete(entry: msgspec.Raw) -> msgspec.Raw:
            members = jsonrpc.members_of(entry)
            name = jsonrpc.text_of(members.get("name", b"null"))
            if name is None:
                return entry  # reported with the list
            async with turn:
                schema = await self._schema(name)
            if schema is None:
                unread.append(name)
                return entry
            return jsonrpc.raw({**members, "inputSchema": schema})

        completed = await asyncio.gather(*map(complete, entries))
        self.unread_schemas = unread
        return list(completed)

    async def _schema(self, name: str) -> Mapping[str, Any] | None:
        for place in PLACES:
            try:
                answer = await self.request(names.RESOURCES_READ, {"uri": place + name}, SCHEMA_S)
            except Unavailable:
                return None
            schema = None if isinstance(answer, RpcError) else _schema_in(answer)
            if schema is not None:
                return schema
        return None


def _schema_in(answer: msgspec.Raw) -> Mapping[str, Any] | None:
    """The `inputSchema` in the JSON text of a resource."""
    try:
        text = msgspec.json.decode(answer)["contents"][0]["text"]
        schema = msgspec.json.decode(text)["inputSchema"] if len(text) <= MAX_SCHEMA else None
    except (msgspec.DecodeError, RecursionError, LookupError, TypeError):
        return None
    return schema if isinstance(schema, Mapping) else None


class WindowPolicy:
    """The sessions with one window: a `RetryPolicy`."""

    initial_state: SourceState = "idle"
    opening_state: SourceState | None = None

    def refusal(self, now: float) -> Unavailable | None:
        """None: a window is always asked."""
        return None

    def may_open(self, now: float) -> bool:
        """Always."""
        return True

    def opened(self) -> None:
        """Nothing is counted."""

    def failed(self, failure: Unavailable, now: float, lived_s: float, chance: float) -> Retry:
        """Wait for the next caller."""
        return Retry("idle", None)

    def forgive(self) -> None:
        """Nothing is counted."""

    def call_succeeded(self) -> None:
        """Nothing is counted."""

    def call_failed(
        self, failure: Unavailable, now: float, chance: float, *, is_current: bool
    ) -> CallVerdict:
        """Without a connection the session is over."""
        gone = isinstance(failure, HttpFailure) and failure.kind in ("unreachable", "session_lost")
        return "down" if gone and is_current else "keep"

    def unavailable(self, error: str | None, now: float) -> Unavailable:
        """What a caller gets while there is no session."""
        return Unavailable(error or "is not connected")
