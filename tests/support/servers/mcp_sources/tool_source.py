"""A tool source whose lists and calls a test decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from lm_tools_bridge.protocol.issues import Issue
from lm_tools_bridge.protocol.names import Era
from workspace_server.call_context import CallContext
from workspace_server.source import HandshakeResult, Source
from workspace_server.tool import CallOutcome, Entry, SourceOfferings, Tool, ToolResult

OBJECT: Mapping[str, Any] = {"type": "object", "properties": {}}


def tool(name: str, schema: Mapping[str, Any] = OBJECT, **members: Any) -> Tool:
    """A tool with the least definition that can be offered."""
    visibility = members.pop("visibility", "native")
    keywords = members.pop("keywords", ())
    return Tool(name, {"name": name, "inputSchema": schema, **members}, visibility, keywords)


def offerings(
    prompts: Sequence[str] = (), resources: Sequence[str] = (), templates: Sequence[str] = ()
) -> SourceOfferings:
    """Entries with the least definition that can be offered."""
    return SourceOfferings(
        tuple(Entry(name, {"name": name}, name) for name in prompts),
        tuple(Entry(uri, {"uri": uri, "name": uri}, uri) for uri in resources),
        tuple(Entry(text, {"uriTemplate": text, "name": text}, text) for text in templates),
    )


def handshake_result(**capabilities: Any) -> HandshakeResult:
    """A server of the newer era with these capabilities."""
    return HandshakeResult(Era.MODERN, "2026-07-28", capabilities)


class ScriptedSource(Source):
    """Offers `tools`; answers calls from `answers`, a coroutine function per tool name.

    `gate` cleared makes lists hang until it is set; `fault` makes them raise. `offered` is what it has beside
    tools; `answers` are coroutine functions that relayed requests go to, by method. `greeted` is what the
    server behind it says of itself, and `updated` tells of a resource to whoever subscribed.
    """

    def __init__(
        self, tools: Sequence[Tool] = (), *, identity: str = "script", namespace: str | None = None
    ) -> None:
        self.id = identity
        self.kind = "script" if namespace is None else "stdio"
        self.namespace = namespace
        self.tools = tuple(tools)
        self.answers: dict[str, Any] = {}
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
        self.offered = SourceOfferings()
        self.answers: dict[str, Any] = {}
        self.relayed: list[tuple[str, dict[str, Any]]] = []
        self.greeted: HandshakeResult | None = None
        self.subscribers: dict[str, list[Callable[[str], None]]] = {}

    async def list_tools(self) -> Sequence[Tool]:
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return self.tools

    async def call_tool(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        self.calls.append((name, arguments))
        self.started.set()
        try:
            if name in self.answers:
                outcome: CallOutcome = await self.answers[name](arguments, context)
                return outcome
            return ToolResult(f"{name} ran", structured={"ran": name})
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    def offerings(self) -> SourceOfferings:
        return self.offered

    async def forward(
        self, method: str, params: Mapping[str, msgspec.Raw], context: CallContext
    ) -> CallOutcome:
        self.relayed.append((method, {key: msgspec.json.decode(raw) for key, raw in params.items()}))
        if method not in self.answers:
            return await super().forward(method, params, context)
        outcome: CallOutcome = await self.answers[method](params, context)
        return outcome

    async def handshake_result(self) -> HandshakeResult | None:
        return self.greeted

    async def subscribe(self, uri: str, listener: Callable[[str], None]) -> Callable[[], None] | None:
        said = {} if self.greeted is None else self.greeted.capabilities.get("resources", {})
        if not said.get("subscribe"):
            return None
        listeners = self.subscribers.setdefault(uri, [])
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def updated(self, uri: str) -> None:
        for listener in self.subscribers.get(uri, []):
            listener(uri)

    async def refresh(self) -> None:
        self.refreshed += 1

    def issues(self) -> Sequence[Issue]:
        return tuple(self.found)

    def withheld(self) -> Mapping[str, str]:
        return dict(self.waiting)

    async def close(self) -> None:
        self.closed = True
