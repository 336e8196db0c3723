"""The tools of a source are served to programs and pages; without more, only those that read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lm_tools_bridge.agent.conversation.toolbox import LateSource
from lm_tools_bridge.agent.messages import Tool
from lm_tools_bridge.agent.tool_service import ToolServiceError
from lm_tools_bridge.agent.tool_service.client import ToolClient
from lm_tools_bridge.agent.tool_service.endpoint import Serving
from lm_tools_bridge.agent.tool_service.source_service import SourceService, serve_source
from lm_tools_bridge.agent.tool_source import Outcome, SourceState, ToolSource
from support.processes.timeouts import within

OBJECT = {"type": "object"}


class Source:
    """Two tools, one of which only reads."""

    name = "source"

    def __init__(self) -> None:
        self.called: list[tuple[str, Mapping[str, Any]]] = []

    async def list_tools(self) -> Sequence[Tool]:
        return [Tool("look", "Looks.", OBJECT, {"readOnlyHint": True}), Tool("change", "", OBJECT)]

    async def call(
        self, name: str, arguments: Mapping[str, Any], on_progress: Callable[[str], None]
    ) -> Outcome:
        self.called.append((name, arguments))
        return Outcome([{"type": "text", "text": name}], is_error=name == "change", structured={"ok": True})

    def state(self) -> SourceState:
        return SourceState(self.name, "ready")

    async def close(self) -> None:
        """Nothing is open."""


class ChangingSource(Source):
    """The same, and tells changes."""

    def __init__(self) -> None:
        super().__init__()
        self.handlers: list[Callable[[], None]] = []

    def on_change(self, handler: Callable[[], None]) -> Callable[[], None]:
        self.handlers.append(handler)
        return lambda: self.handlers.remove(handler)


@asynccontextmanager
async def client_of(source: ToolSource, **options: Any) -> AsyncIterator[ToolClient]:
    announced: asyncio.Future[Serving] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    task = asyncio.create_task(serve_source(source, announced.set_result, stop=stop, **options))
    address = await announced
    async with ToolClient(address.address, token=address.token) as client:
        yield client
    stop.set()
    await task


async def test_only_tools_that_read_are_offered() -> None:
    source = Source()
    async with client_of(source) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["look"]
        result = await client.call_tool("look", {"a": 1})
        assert result == {"content": [{"type": "text", "text": "look"}], "structuredContent": {"ok": True}}
        with pytest.raises(ToolServiceError, match="Tool not found or disabled: change"):
            await client.call_tool("change")
    assert source.called == [("look", {"a": 1})]


@pytest.mark.parametrize("is_late", [False, True])
async def test_clients_are_told_when_the_tools_of_the_source_change(is_late: bool) -> None:
    source, changed, changes = ChangingSource(), asyncio.Event(), 0

    def count() -> None:
        nonlocal changes
        changes += 1
        changed.set()

    async with client_of(LateSource("source", lambda: source) if is_late else source) as client:
        client.on_tool_list_changed(count)
        while not source.handlers:
            await asyncio.sleep(0.01)
        source.handlers[0]()  # as when the first list opens the session: nobody knows a list yet
        await client.list_tools()
        assert changes == 0
        source.handlers[0]()
        async with asyncio.timeout(within(5)):
            await changed.wait()
    assert (changes, source.handlers) == (1, [])


async def test_the_one_page_of_a_source_never_comes_again() -> None:
    service = SourceService(Source())
    page = await service.handle_tools_list_request({"method": "tools/list", "params": {}})
    assert ([tool["name"] for tool in page["tools"]], "nextCursor" in page) == (["look", "change"], False)
    for later in ({"cursor": "100"}, {"params": {"cursor": "100"}}):
        with pytest.raises(ToolServiceError, match="list again without one"):
            await service.handle_tools_list_request(later)


async def test_tools_that_change_something_are_offered_by_name() -> None:
    async with client_of(Source(), allowed=["change"], token="known") as client:
        assert (await client.call_tool("change"))["isError"] is True
        with pytest.raises(ToolServiceError, match="look"):
            await client.call_tool("look")
