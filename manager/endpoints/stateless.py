"""Answers what only stateless clients send: server/discover, listen streams, removed methods.

All other requests are passed to `answers/dispatch.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec
from msgspec import structs

from lm_tools_bridge.protocol import apps_extension, jsonrpc, names
from lm_tools_bridge.protocol import skills_extension as skills
from lm_tools_bridge.protocol import tasks_extension as tasks
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.names import MODERN_REVISIONS
from manager.answers import replies
from manager.answers.catalog import ServerDiscover
from manager.answers.dispatch import Dispatch, refuse_undeclared_tasks
from manager.answers.exchange import Exchange, Located
from manager.answers.replies import AnyReply, Ending, Events, IdleStream, Plain, Relayed, Reply
from manager.answers.workspace_lookup import look_up_workspace
from manager.http.open_streams import StreamEndings

_CAPABILITIES: Final = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "extensions": {
        tasks.EXTENSION: {},
        skills.EXTENSION: skills.CAPABILITY,
        apps_extension.EXTENSION: {},
    },
}
_KINDS: Final = ("toolsListChanged", "promptsListChanged", "resourcesListChanged")


class StatelessEndpoint:
    """Answers the requests of stateless clients (MCP 2026-07-28)."""

    def __init__(self, dispatch: Dispatch, server_discover: ServerDiscover, endings: StreamEndings) -> None:
        self._dispatch = dispatch
        self._server_discover = server_discover
        self._endings = endings

    async def answer(self, exchange: Exchange) -> AnyReply:
        """The reply to a stateless client's request."""
        method = exchange.message.method
        if method in names.LEGACY_ONLY:
            return replies.method_not_found(exchange)
        if method == names.DISCOVER:
            return await self._discover(exchange)
        if method == names.LISTEN:
            return await self._listen(exchange)
        return await self._dispatch.answer(exchange)

    async def _discover(self, exchange: Exchange) -> Reply:
        """The workspace's `server/discover` result; the manager's own if that is late or fails."""
        discovered = await self._server_discover.result(exchange)
        if discovered is not None:
            return Plain(jsonrpc.result(exchange.message.id, discovered))
        value: dict[str, Any] = {
            "supportedVersions": list(MODERN_REVISIONS),
            "capabilities": _CAPABILITIES,
            "instructions": replies.INSTRUCTIONS,
        }
        return Plain(replies.result(exchange, value))

    async def _listen(self, exchange: Exchange) -> AnyReply:
        """Forward `subscriptions/listen` to the workspace; without one, open a stream without events."""
        located = await look_up_workspace(self._dispatch.workspaces, exchange.claims)
        if isinstance(located, Refusal):
            return replies.refuse(exchange, located)
        exchange.decided(located)
        if not isinstance(located, Located):
            return _undeclared(exchange) or self._open_silent_stream(exchange)
        reply = await self._dispatch.forward(exchange, located)
        if isinstance(reply, Relayed):
            return structs.replace(reply, ending=self._ending(exchange))
        return reply

    def _open_silent_stream(self, exchange: Exchange) -> AnyReply:
        if not exchange.accepts_events:
            return Events(self._end_of_stream(exchange))
        identity = msgspec.Raw(exchange.message.id)
        wanted = jsonrpc.members_of(exchange.params.get("notifications", b"{}"))
        honoured = {kind: True for kind in _KINDS if jsonrpc.bytes_of(wanted.get(kind, _FALSE)) == b"true"}
        meta = {names.META_SUBSCRIPTION: identity}
        message = jsonrpc.notification(names.ACKNOWLEDGED, {"notifications": honoured, "_meta": meta})
        return IdleStream(message, self._ending(exchange))

    def _ending(self, exchange: Exchange) -> Ending:
        return Ending(self._endings, self._completed(exchange), exchange.seen)

    async def _end_of_stream(self, exchange: Exchange) -> AsyncGenerator[bytes]:
        await self._endings.wait()
        yield self._completed(exchange)

    def _completed(self, exchange: Exchange) -> bytes:
        """The response that ends a listen stream."""
        return replies.result(
            exchange, {"_meta": {names.META_SUBSCRIPTION: msgspec.Raw(exchange.message.id)}}
        )


def _undeclared(exchange: Exchange) -> Plain | None:
    """The error for `taskIds` from a client that has not declared the tasks extension, else None."""
    asked = "taskIds" in jsonrpc.members_of(exchange.params.get("notifications", b"{}"))
    return refuse_undeclared_tasks(exchange, "taskIds") if asked else None


_FALSE: Final = msgspec.Raw(b"false")
