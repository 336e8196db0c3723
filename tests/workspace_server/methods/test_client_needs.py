"""Lists and calls are as the manager says that a client needs them, by two headers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from lm_tools_bridge.protocol import headers, names
from support.clients.stateless_requests import Caller
from support.processes.workspace_app import Serving, serving
from support.servers.mcp_sources.tool_source import ScriptedSource, tool

SCHEMA = {"type": "object", "properties": {"ran": {"type": "string"}}}
LONG = "a_rather_long_name_of_a_tool_that_somebody_wrote"


@pytest.fixture
async def served() -> AsyncIterator[Serving]:
    """A workspace with tools of ours, of a server, and of one whose names become those of the other."""
    own = ScriptedSource([tool("lm_readFile", outputSchema=SCHEMA)], identity="builtin")
    own.kind = "builtin"
    memory = ScriptedSource(
        [tool("read", outputSchema=SCHEMA), tool(LONG), tool("later", visibility="ondemand")],
        identity="stdio:memory",
        namespace="memory",
    )
    odd = ScriptedSource([tool("_read"), tool("own")], identity="stdio:memory_", namespace="memory_")
    async with serving([own, memory, odd]) as server:
        yield server


def caller(served: Serving, **sent: str) -> Caller:
    return Caller(served.session, f"{served.base}/mcp", told=sent)


def with_separator(served: Serving) -> Caller:
    return caller(served, **{headers.TOOL_NAMES: "separator=_"})


async def listed(client: Caller) -> dict[str, Any]:
    return {entry["name"]: entry for entry in (await client.result(names.TOOLS_LIST))["tools"]}


async def ran(client: Caller, name: str) -> str:
    result = await client.call(name)
    return str(result["structuredContent"]["ran"])


async def test_a_client_gets_names_with_its_separator_and_calls_tools_by_both(served: Serving) -> None:
    client = with_separator(served)
    tools = await listed(client)
    assert {"lm_readFile", "memory_own", f"memory_{LONG}"} <= tools.keys()
    assert not [name for name in tools if "__" in name]
    assert list(tools) == sorted(tools, key=str.lower)
    assert await ran(client, "memory_own") == await ran(client, "memory___own") == "own"


async def test_names_that_become_equal_are_an_issue_and_their_common_name_is_refused(served: Serving) -> None:
    client = with_separator(served)
    result = await client.result(names.TOOLS_LIST)
    (issue,) = [one for one in result["_meta"][names.META_ISSUES] if one["code"] == "TOOL_NAME_CLASH"]
    assert issue["toolName"] == "memory_read"
    tools = [entry["name"] for entry in result["tools"] if entry["name"].startswith("memory_read")]
    assert sorted([await ran(client, name) for name in tools]) == ["_read", "read"]
    for refused in (
        await client.error(names.TOOLS_CALL, {"name": "memory_read"}),
        await client.error(names.TOOLS_CALL, {"name": "execute_tool", "arguments": {"name": "memory_read"}}),
    ):
        assert refused["data"]["reason"] == "tool_not_found"
        assert all(name in refused["data"]["nextStep"] for name in tools)


async def test_a_tool_is_executed_by_either_name(served: Serving) -> None:
    client = with_separator(served)
    for name in ("memory_later", "memory__later"):
        result = await client.call("execute_tool", {"name": name})
        assert result["structuredContent"] == {"ran": "later"}


async def test_hits_and_suggestions_have_the_names_of_the_list(served: Serving) -> None:
    client = with_separator(served)
    found = await client.call("tool_search", {"query": "later"})
    assert found["structuredContent"]["results"][0]["name"] == "memory_later"
    error = await client.error(names.TOOLS_CALL, {"name": "memory_a_rather_long_name_that_somebody_wrote"})
    assert error["data"]["details"]["nearest"] == [f"memory_{LONG}"]


async def test_a_client_gets_names_that_it_shows_whole(served: Serving) -> None:
    client = caller(served, **{headers.TOOL_NAMES: "longest=43"})
    tools = await listed(client)
    (short,) = [name for name in tools if name.startswith("memory__a_rather")]
    assert len(short) == 43
    assert await ran(client, short) == await ran(client, f"memory__{LONG}") == LONG


async def test_other_clients_get_the_offered_names(served: Serving) -> None:
    client = caller(served)
    assert {"memory__read", "memory____read", f"memory__{LONG}"} <= (await listed(client)).keys()
    assert (await client.error(names.TOOLS_CALL, {"name": "memory_own"}))["data"][
        "reason"
    ] == "tool_not_found"


async def test_a_model_that_sees_both_parts_gets_the_text_of_our_own_tools_alone(served: Serving) -> None:
    client = caller(served, **{headers.MODEL_SEES: "both"})
    tools = await listed(client)
    assert "outputSchema" not in tools["lm_readFile"]
    assert "outputSchema" in tools["memory__read"]
    assert "structuredContent" not in await client.call("lm_readFile")
    assert (await client.call("memory__read"))["structuredContent"] == {"ran": "read"}
    found = await client.call("tool_search", {"query": "later"})
    assert "structuredContent" not in found
    assert "memory__later" in found["content"][0]["text"]


async def test_other_models_get_both_parts(served: Serving) -> None:
    client = caller(served, **{headers.MODEL_SEES: "text"})
    assert "outputSchema" in (await listed(client))["lm_readFile"]
    assert "structuredContent" in await client.call("lm_readFile")
