"""The client behind one request: which notifications it wants, and their delivery with its own token."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.names import LOG_LEVELS
from workspace_server.call_context import CallContext


class Client:
    """A client during one request.

    Attributes:
        context: its call.
        meta: the members of the request's `_meta`.
        token: its progress token as JSON text; None without one.
        level: the least severe level of log messages it wants; None for none.
    """

    def __init__(self, context: CallContext) -> None:
        self.meta = meta = context.meta
        level = jsonrpc.text_of(meta.get(names.META_LOG_LEVEL, b""))
        self.context = context
        self.token = meta.get("progressToken")
        self.level = level if level in LOG_LEVELS else None

    def wants(self, method: str, params: Mapping[str, msgspec.Raw]) -> bool:
        """Whether the client wants a notification that belongs to its request."""
        if method == names.PROGRESS:
            return self.token is not None
        if method == names.MESSAGE:
            level = jsonrpc.text_of(params.get("level", b""))
            return self.level is not None and level in LOG_LEVELS[LOG_LEVELS.index(self.level) :]
        return method == names.ELICITED and self.context.caller != ""  # not part of 2026-07-28

    async def notify(self, method: str, params: Mapping[str, msgspec.Raw]) -> None:
        """Forward a notification, progress with the client's own token."""
        own = {"progressToken": self.token} if method == names.PROGRESS else {}
        await self.context.notify(method, {**params, **own})
