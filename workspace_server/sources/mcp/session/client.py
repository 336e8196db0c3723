"""The client behind one request: which notifications it wants, and their delivery with its own token."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from protocol import jsonrpc, names
from protocol.names import LOG_LEVELS
from workspace_server.call_context import CallContext


class Client:
    """A client during one request.

    Attributes:
        context: its call.
        meta: the members of the `_meta` it sent.
        token: its progress token as JSON text, None where it wants no progress.
        level: the least severe log messages it wants; None for none at all.
    """

    def __init__(self, context: CallContext) -> None:
        self.meta = meta = context.meta
        level = jsonrpc.text_of(meta.get(names.META_LOG_LEVEL, b""))
        self.context = context
        self.token = meta.get("progressToken")
        self.level = level if level in LOG_LEVELS else None

    def wants(self, method: str, params: Mapping[str, msgspec.Raw]) -> bool:
        """Whether it wants to hear a notification that concerns it."""
        if method == names.PROGRESS:
            return self.token is not None
        if method == names.MESSAGE:
            said = jsonrpc.text_of(params.get("level", b""))
            return self.level is not None and said in LOG_LEVELS[LOG_LEVELS.index(self.level) :]
        return method == names.ELICITED and self.context.caller != ""  # 2026-07-28 knows no such thing

    async def notify(self, method: str, params: Mapping[str, msgspec.Raw]) -> None:
        """Pass a notification on; progress gets its own token back."""
        own = {"progressToken": self.token} if method == names.PROGRESS else {}
        await self.context.notify(method, {**params, **own})
