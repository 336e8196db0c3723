"""The workspace's tools for those who are no client: scripts in a call, programs of the user's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from protocol import jsonrpc
from protocol.inbound import Rejection
from workspace_server.call_context import CallContext
from workspace_server.calls.call import Call
from workspace_server.calls.request import Outcome, internal_request
from workspace_server.catalog.toolset import Toolset
from workspace_server.catalog.view import Mode, mode_of

Run = Callable[[Call], Awaitable[Outcome]]


class InternalToolbox:
    """For a program of the user's own, on the internal channel."""

    def __init__(self, toolset: Toolset, run: Run) -> None:
        self._toolset = toolset
        self._run = run

    async def listed(self) -> list[Mapping[str, Any]]:
        """See `call_context.Toolbox`: all that can be called."""
        return (await self._toolset.current()).listed(Mode.SHOW_ALL)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `call_context.Toolbox`."""
        view = await self._toolset.current()
        return _plain(
            await self._run(Call(internal_request(name), view, name, jsonrpc.raw(arguments), is_direct=False))
        )


class NestedToolbox:
    """For a script: with the view and the rights of whoever called it."""

    def __init__(self, call: Call, context: CallContext, run: Run) -> None:
        self._call = call
        self._context = context
        self._run = run

    async def listed(self) -> list[Mapping[str, Any]]:
        """See `call_context.Toolbox`."""
        mode = mode_of(self._call.asked.header, self._call.asked.query)
        return self._call.view.listed(Mode.NORMAL if mode is Mode.DISCOVERY else mode)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `call_context.Toolbox`."""
        inner = self._call.of(name, jsonrpc.raw(arguments))
        return _plain(await self._run(replace(inner, depth=self._call.depth + 1, within=self._context)))


def _plain(outcome: Outcome) -> Mapping[str, Any]:
    if isinstance(outcome, Rejection):
        error: Mapping[str, Any] = msgspec.json.decode(outcome.body())["error"]
        return {"error": error}
    return {"result": msgspec.json.decode(outcome) if isinstance(outcome, msgspec.Raw) else outcome}
