"""Serves the tools of a source until a signal ends it; what `lmtb agent serve` runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from lm_tools_bridge.agent.messages import Tool
from lm_tools_bridge.agent.tool_service.endpoint import Serving, serving
from lm_tools_bridge.agent.tool_service.source_service import SourceService
from lm_tools_bridge.agent.tool_source import ToolSource


async def serve_source(
    source: ToolSource,
    announce: Callable[[Serving], None],
    *,
    port: int = 0,
    origins: Collection[str] = (),
    token: str | None = None,
    allowed: Collection[str] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve a source over WebSockets until `stop` is set or the task is cancelled; the source is not closed.

    Args:
        announce: told the address and the token as soon as clients can connect.
        port: 0 for a free one.
        origins: web pages that may connect.
        token: by default a new random one.
        allowed: names of the tools that are offered; None for those that only read.

    Raises:
        OSError: the port is taken.
    """

    def may_use(tool: Tool) -> bool:
        if allowed is not None:
            return tool.name in allowed
        return tool.annotations.get("readOnlyHint") is True

    async with serving(SourceService(source, may_use), port=port, origins=origins, token=token) as address:
        announce(address)
        await (stop or asyncio.Event()).wait()
