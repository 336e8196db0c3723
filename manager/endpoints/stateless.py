"""Answers what only stateless clients send: server/discover, listen streams, removed methods.

All else goes on to `answers/dispatch.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any, Final

import msgspec

from manager.answers import result_format
from manager.answers.dispatch import Dispatch
from manager.answers.exchange import (
    AnyReply,
    Ending,
    Events,
    Exchange,
    Located,
    Plain,
    Quiet,
    Relayed,
    Reply,
)
from manager.answers.server_discover import ServerDiscover
from manager.answers.tasks import undeclared
from manager.answers.workspace_lookup import look_up_workspace
from manager.http.stream_endings import StreamEndings
from protocol import jsonrpc, names, tasks
from protocol.errors import Refusal
from protocol.versions import MODERN_REVISIONS

_CAPABILITIES: Final = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "extensions": {tasks.EXTENSION: {}},
}
_KINDS: Final = ("toolsListChanged", "promptsListChanged", "resourcesListChanged")


class StatelessEndpoint:
    """The modern side of the MCP endpoint."""

    def __init__(self, dispatch: Dispatch, server_discover: ServerDiscover, endings: StreamEndings) -> None:
        self._dispatch = dispatch
        self._server_discover = server_discover
        self._endings = endings

    async def answer(self, exchange: Exchange) -> AnyReply:
        """The reply to a modern request."""
        method = exchange.message.method
        if method in names.LEGACY_ONLY:
            return result_format.method_not_found(exchange)
        if method == names.DISCOVER:
            return await self._discover(exchange)
        if method == names.LISTEN:
            return await self._listen(exchange)
        return await self._dispatch.answer(exchange)

    async def _discover(self, exchange: Exchange) -> Reply:
        """What the workspace says of itself, else what we do: a probe must not fail, nor wait long."""
        said = await self._server_discover.result(exchange)
        if said is not None:
            return Plain(jsonrpc.result(exchange.message.id, said))
        value: dict[str, Any] = {
            "supportedVersions": list(MODERN_REVISIONS),
            "capabilities": _CAPABILITIES,
            "instructions": result_format.INSTRUCTIONS,
        }
        return Plain(result_format.result(exchange, value))

    async def _listen(self, exchange: Exchange) -> AnyReply:
        """A workspace's own stream at a workspace endpoint; at the fixed endpoint lists never change."""
        located = await look_up_workspace(self._dispatch.workspaces, exchange.claims)
        if isinstance(located, Refusal):
            return result_format.refuse(exchange, located)
        exchange.decided(located)
        if not isinstance(located, Located):
            return _undeclared(exchange) or self._quiet(exchange)
        reply = await self._dispatch.forward(exchange, located)
        if isinstance(reply, Relayed):
            return replace(reply, ending=Ending(self._endings, self._completed(exchange)))
        return reply

    def _quiet(self, exchange: Exchange) -> AnyReply:
        if not exchange.accepts_events:
            return Events(self._end_of_stream(exchange))
        identity = msgspec.Raw(exchange.message.id)
        wanted = jsonrpc.members_of(exchange.params.get("notifications", b"{}"))
        honoured = {kind: True for kind in _KINDS if jsonrpc.bytes_of(wanted.get(kind, _FALSE)) == b"true"}
        meta = {names.META_SUBSCRIPTION: identity}
        message = jsonrpc.notification(names.ACKNOWLEDGED, {"notifications": honoured, "_meta": meta})
        return Quiet(message, Ending(self._endings, self._completed(exchange)))

    async def _end_of_stream(self, exchange: Exchange) -> AsyncGenerator[bytes]:
        await self._endings.wait()
        yield self._completed(exchange)

    def _completed(self, exchange: Exchange) -> bytes:
        """The response that ends a listen stream in good order."""
        return result_format.result(
            exchange, {"_meta": {names.META_SUBSCRIPTION: msgspec.Raw(exchange.message.id)}}
        )


def _undeclared(exchange: Exchange) -> Plain | None:
    """Tasks are told about at the addresses of their workspaces; who may not ask hears so here, too."""
    asked = "taskIds" in jsonrpc.members_of(exchange.params.get("notifications", b"{}"))
    return undeclared(exchange, "taskIds") if asked else None


_FALSE: Final = msgspec.Raw(b"false")
