"""A tool source whose lists and calls a test decides, for everything the built-ins cannot show."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from protocol.issues import Issue
from workspace_server.source import CallContext, CallOutcome, Source, Tool, ToolResult

OBJECT: Mapping[str, Any] = {"type": "object", "properties": {}}


def tool(name: str, schema: Mapping[str, Any] = OBJECT, **members: Any) -> Tool:
    """A tool with the least definition that can be offered."""
    visibility = members.pop("visibility", "native")
    keywords = members.pop("keywords", ())
    return Tool(name, {"name": name, "inputSchema": schema, **members}, visibility, keywords)


class PlayedSource(Source):
    """Offers `tools`; answers calls from `play`, a coroutine function per tool name.

    `gate` cleared makes lists hang until it is set; `fault` makes them raise.
    """

    def __init__(
        self, tools: Sequence[Tool] = (), *, identity: str = "script", namespace: str | None = None
    ) -> None:
        self.id = identity
        self.kind = "script" if namespace is None else "stdio"
        self.namespace = namespace
        self.tools = tuple(tools)
        self.play: dict[str, Any] = {}
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.cancelled = asyncio.Event()
        self.started = asyncio.Event()
        self.closed = False
        self.refreshed = 0
        self.found: list[Issue] = []
        self.waiting: dict[str, str] = {}
        self.fault: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def list_tools(self) -> Sequence[Tool]:
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return self.tools

    async def call_tool(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        self.calls.append((name, arguments))
        self.started.set()
        try:
            if name in self.play:
                outcome: CallOutcome = await self.play[name](arguments, context)
                return outcome
            return ToolResult(f"{name} ran", structured={"ran": name})
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def refresh(self) -> None:
        self.refreshed += 1

    def issues(self) -> Sequence[Issue]:
        return tuple(self.found)

    def withheld(self) -> Mapping[str, str]:
        return dict(self.waiting)

    async def close(self) -> None:
        self.closed = True
