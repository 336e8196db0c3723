"""Calls tools for programs that are no MCP client: scripts, and programs on the internal channel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.inbound import Rejection
from workspace_server.call_context import CallContext
from workspace_server.calls.call import Call
from workspace_server.calls.request import Outcome, internal_request
from workspace_server.calls.ways import Way
from workspace_server.catalog.toolset import Toolset
from workspace_server.catalog.view import Mode, mode_of

Run = Callable[[Call], Awaitable[Outcome]]


class InternalToolbox:
    """The tools for a program of the user, on the internal channel."""

    def __init__(self, toolset: Toolset, run: Run) -> None:
        self._toolset = toolset
        self._run = run

    async def listed(self) -> list[Mapping[str, Any]]:
        """All callable tools (see `call_context.Toolbox`)."""
        return (await self._toolset.current()).listed(Mode.SHOW_ALL)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `call_context.Toolbox`."""
        view = await self._toolset.current()
        call = Call(internal_request(name), view, name, jsonrpc.raw(arguments), Way.INTERNAL)
        return _as_members(await self._run(call))


class NestedToolbox:
    """The tools for a script: with the view and the rights of the script's caller."""

    def __init__(self, call: Call, context: CallContext, run: Run) -> None:
        self._call = call
        self._context = context
        self._run = run

    async def listed(self) -> list[Mapping[str, Any]]:
        """See `call_context.Toolbox`."""
        mode = mode_of(self._call.request.header, self._call.request.query)
        return self._call.view.listed(Mode.NORMAL if mode is Mode.DISCOVERY else mode)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `call_context.Toolbox`."""
        inner = self._call.nested(name, jsonrpc.raw(arguments), self._context)
        return _as_members(await self._run(inner))


def _as_members(outcome: Outcome) -> Mapping[str, Any]:
    """`{"result": …}` or `{"error": …}`."""
    if isinstance(outcome, Rejection):
        error: Mapping[str, Any] = msgspec.json.decode(outcome.body())["error"]
        return {"error": error}
    return {"result": msgspec.json.decode(outcome) if isinstance(outcome, msgspec.Raw) else outcome}
