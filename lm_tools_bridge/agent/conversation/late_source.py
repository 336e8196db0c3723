"""A source of tools that is made when its tools are first listed, because what it needs loads slowly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lm_tools_bridge.agent.messages import Tool
from lm_tools_bridge.agent.tool_source import (
    Outcome,
    SourceState,
    ToolSource,
    limits_calls,
    on_change_of,
    refusal_of,
)


class LateSource:
    """Stands for a source until it is needed, and passes everything on to it from then on."""

    def __init__(self, name: str, make: Callable[[], ToolSource]) -> None:
        self.name = name
        self._make = make
        self._source: ToolSource | None = None

    @property
    def limits_calls(self) -> bool:
        """See `LimitsCalls`: whether the source that it stands for does."""
        return limits_calls(self._made())

    async def list_tools(self) -> Sequence[Tool]:
        """See `ToolSource`."""
        return await self._made().list_tools()

    async def call(
        self, name: str, arguments: Mapping[str, Any], on_progress: Callable[[str], None]
    ) -> Outcome:
        """See `ToolSource`."""
        return await self._made().call(name, arguments, on_progress)

    def refusal(self, name: str, arguments: Mapping[str, Any]) -> Outcome | None:
        """See `RefusesCalls`."""
        return refusal_of(self._made(), name, arguments)

    def on_change(self, handler: Callable[[], None]) -> Callable[[], None]:
        """See `TellsChanges`."""
        return on_change_of(self._made(), handler)

    def state(self) -> SourceState:
        """See `ToolSource`."""
        if self._source is None:
            return SourceState(self.name, "starting", "not listed yet")
        return self._source.state()

    async def close(self) -> None:
        """See `ToolSource`."""
        if self._source is not None:
            await self._source.close()

    def _made(self) -> ToolSource:
        if self._source is None:
            self._source = self._make()
        return self._source


class LateDiscoverySource(LateSource):
    """A late source that can offer a search in the place of its tools."""

    async def set_discovery(self, on: bool) -> None:
        """Offer `tool_search` and `execute_tool` instead of all tools, or all tools again."""
        source: Any = self._made()
        await source.set_discovery(on)
