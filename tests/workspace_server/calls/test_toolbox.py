"""Programs on the internal channel list and call the workspace's tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import jsonrpc, names
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.call_context import CallContext
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.toolbox import InternalToolbox
from workspace_server.catalog.registry import Registry
from workspace_server.catalog.toolset import Toolset
from workspace_server.tool import CallOutcome, RpcError, ToolResult


@asynccontextmanager
async def toolbox(source: ScriptedSource) -> AsyncIterator[InternalToolbox]:
    toolset = Toolset(Registry([source]))
    calls = Calls(toolset)
    try:
        yield InternalToolbox(toolset, calls.run)
    finally:
        await calls.close()
        await toolset.close()


async def test_all_that_can_be_called_is_listed() -> None:
    """Including the tools that clients have to search for."""
    async with toolbox(ScriptedSource([tool("a"), tool("b", visibility="ondemand")])) as own:
        assert [one["name"] for one in await own.listed()] == ["a", "b"]


@pytest.mark.parametrize("task", ["forbidden", "optional", "required"])
async def test_a_call_waits_for_its_result_as_long_as_it_takes(task: Any) -> None:
    """SEP-2663: tasks are for clients."""
    async with toolbox(ScriptedSource([replace(tool("a"), task=task)])) as own:
        answer = await own.call("a", {})
        assert answer["result"]["structuredContent"] == {"ran": "a"}


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (RpcError(-32050, "no", msgspec.Raw(b'{"n":1}')), {"error": {"code": -32050, "message": "no", "data": {"n": 1}}}),
        (msgspec.Raw(b'{"content":[],"x":1}'), {"result": {"content": [], "x": 1}}),
    ],
)  # fmt: skip
async def test_what_a_tool_gives_comes_back_decoded(outcome: CallOutcome, expected: Any) -> None:
    source = ScriptedSource([tool("a")])

    async def answer(arguments: Any, context: CallContext) -> CallOutcome:
        return outcome

    source.answers["a"] = answer
    async with toolbox(source) as own:
        assert await own.call("a", {}) == expected


async def test_input_requests_of_internal_calls_get_an_error() -> None:
    """The call ends, and says what it would need."""
    source = ScriptedSource([tool("a")])
    form = jsonrpc.raw({"message": "?", "requestedSchema": {"type": "object", "properties": {}}})

    async def answer(arguments: Any, context: CallContext) -> CallOutcome:
        await context.ask(names.ELICIT, form)
        return ToolResult("asked")

    source.answers["a"] = answer
    async with toolbox(source) as own:
        error = (await own.call("a", {}))["error"]
        assert (error["code"], error["data"]) == (
            -32021,
            {"requiredCapabilities": {"elicitation": {"form": {}}}},
        )
