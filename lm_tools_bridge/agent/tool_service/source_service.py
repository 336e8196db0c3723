"""Offers the tools of a source over WebSockets until a signal ends it; what `lmtb agent serve` runs."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from lm_tools_bridge.agent.messages import Tool
from lm_tools_bridge.agent.tool_service.endpoint import Serving, serving
from lm_tools_bridge.agent.tool_service.service import (
    CallToolResult,
    ToolServiceError,
    cursor_of,
    invalid_cursor,
)
from lm_tools_bridge.agent.tool_source import ToolSource, on_change_of
from lm_tools_bridge.protocol.jsonrpc import INVALID_PARAMS

MayUse = Callable[[Tool], bool]
"""Whether clients may see and call a tool."""


class SourceService:
    """Answers lists and calls from a source; the source checks the arguments.

    Args:
        source: where tools come from.
        may_use: which of them are offered; by default all.
    """

    def __init__(self, source: ToolSource, may_use: MayUse = lambda _: True) -> None:
        self._source = source
        self._may_use = may_use
        self._names: frozenset[str] = frozenset()
        self._was_listed = False

    async def handle_tools_list_request(self, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The result of `tools/list`, in one page.

        Raises:
            ToolServiceError: the request has a cursor, and asks for a later page (-32602).
        """
        if cursor_of(request) is not None:
            raise invalid_cursor()
        tools = [tool for tool in await self._source.list_tools() if self._may_use(tool)]
        self._names, self._was_listed = frozenset(tool.name for tool in tools), True
        return {
            "tools": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "inputSchema": tool.input_schema,
                    **({"annotations": tool.annotations} if tool.annotations else {}),
                }
                for tool in tools
            ]
        }

    async def handle_tool_call_request(self, request: Mapping[str, Any]) -> CallToolResult:
        """The result of `tools/call`.

        Raises:
            ToolServiceError: the tool is not offered, or the request has another form.
        """
        params = request.get("params", request)
        name = params.get("name") if isinstance(params, Mapping) else None
        arguments = params.get("arguments") if isinstance(params, Mapping) else None
        if not isinstance(name, str) or not isinstance(arguments or {}, Mapping):
            raise ToolServiceError("a name and an object of arguments are needed", INVALID_PARAMS)
        if name not in self._names:
            await self.handle_tools_list_request()
        if name not in self._names:
            raise ToolServiceError(f"Tool not found or disabled: {name}", INVALID_PARAMS)
        outcome = await self._source.call(name, arguments or {}, lambda _: None)
        result: CallToolResult = {"content": [dict(block) for block in outcome.content]}
        if outcome.is_error:
            result["isError"] = True
        if outcome.structured is not None:
            result["structuredContent"] = outcome.structured
        return result

    def on_tool_list_changed(self, handler: Callable[[], None]) -> Callable[[], None]:
        """Call `handler` after each change that the source tells, once a list was given out."""

        def tell() -> None:
            if self._was_listed:
                handler()

        return on_change_of(self._source, tell)


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


async def offer(
    source: ToolSource, *, port: int, origins: Sequence[str], allowed: Sequence[str], as_json: bool
) -> int:
    """Serve until SIGINT or SIGTERM; the exit code. Prints address and token once clients can connect."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)

    def announce(served: Serving) -> None:
        members = {"ok": True, "address": served.address, "token": served.token}
        text = json.dumps(members) if as_json else f"address: {served.address}\ntoken:   {served.token}"
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    try:
        await serve_source(source, announce, port=port, origins=origins, allowed=allowed or None, stop=stop)
    except OSError as error:
        sys.stderr.write(f"port {port} cannot be used: {error.strerror or error}\n")
        return 1
    return 0
