"""MCP Apps over real HTTP: which clients see what of them, and whose pages and tools are meant."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.protocol import apps_extension, names
from support.processes.workspace_app import Serving, serving
from support.servers.mcp_sources.app_source import SHOWS_APPS, AppSource, app_only_tool, page_tool
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.tool import ToolResult


async def tool_names(served: Serving, **meta: Any) -> list[str]:
    result = await served.caller.result(names.TOOLS_LIST, **meta)
    return [entry["name"] for entry in result["tools"]]


async def test_tools_for_apps_alone_are_listed_for_clients_that_show_apps_and_for_no_others() -> None:
    async with serving([AppSource("clock")]) as served:
        assert await tool_names(served) == ["clock__plain", "clock__show-time"]
        with_apps = ["clock__get-time", "clock__plain", "clock__show-time"]
        assert await tool_names(served, **SHOWS_APPS) == with_apps
        assert await tool_names(served) == ["clock__plain", "clock__show-time"], "one list is not the other"


async def test_a_tool_that_nobody_may_call_is_no_tool_for_models() -> None:
    both, nobody = page_tool("both", visibility=["model", "app"]), page_tool("nobody", visibility=[])
    async with serving([AppSource("clock", both, nobody, page_tool("strange", visibility="app"))]) as served:
        assert await tool_names(served) == ["clock__both", "clock__strange"]


@pytest.mark.parametrize("declares", [False, True])
async def test_a_model_finds_a_tool_for_apps_neither_by_search_nor_by_execute_tool(declares: bool) -> None:
    source = AppSource("clock", app_only_tool(), tool("late"))
    source.tools = (*source.tools, tool("rare", visibility="ondemand"))
    async with serving([source]) as served:
        meta = SHOWS_APPS if declares else {}
        found = await served.caller.result(
            names.TOOLS_CALL, {"name": "tool_search", "arguments": {"query": "get time"}}, **meta
        )
        assert "get-time" not in str(found["content"])
        wrapped = {"name": "clock__get-time", "arguments": {}}
        answer = await served.caller.result(
            names.TOOLS_CALL, {"name": "execute_tool", "arguments": wrapped}, **meta
        )
        assert answer["isError"] is True
        assert source.calls == []


async def test_a_client_without_apps_cannot_call_a_tool_for_apps_and_is_not_told_its_name() -> None:
    source = AppSource("clock")
    async with serving([source]) as served:
        error = await served.caller.error(names.TOOLS_CALL, {"name": "clock__get-time", "arguments": {}})
        assert error["message"].startswith("Tool not found or disabled: clock__get-time. ")
        assert error["data"]["details"]["nearest"] == []
        resources = await served.caller.result(names.RESOURCES_LIST)
        assert not [entry for entry in resources["resources"] if entry["uri"].endswith("get-time")]
        assert source.calls == []
        result = await served.caller.result(
            names.TOOLS_CALL, {"name": "clock__get-time", "arguments": {}}, **SHOWS_APPS
        )
        assert result["structuredContent"] == {"ran": "get-time"}


async def test_a_script_does_not_reach_tools_for_apps() -> None:
    clock, script = AppSource("clock"), ScriptedSource([tool("nightly")])
    seen: dict[str, Any] = {}

    async def ask_for_time(arguments: Any, context: Any) -> Any:
        seen["listed"] = [definition["name"] for definition in await context.toolbox.listed()]
        seen["answer"] = await context.toolbox.call("clock__get-time", {})
        return ToolResult("asked")

    script.answers["nightly"] = ask_for_time
    async with serving([clock, script]) as served:
        await served.caller.result(names.TOOLS_CALL, {"name": "nightly", "arguments": {}}, **SHOWS_APPS)
    assert seen["listed"] == ["clock__plain", "clock__show-time", "nightly"]
    assert "error" in seen["answer"]
    assert clock.calls == []


UI = apps_extension.EXTENSION


async def extensions(served: Serving) -> Any:
    return (await served.caller.result(names.DISCOVER))["capabilities"]["extensions"]


@pytest.mark.parametrize("namespace", [None, "other"])
async def test_apps_are_declared_if_a_server_declares_them_or_a_tool_has_one(namespace: str | None) -> None:
    """Many servers do not declare what their tools have."""
    plain = ScriptedSource([tool("t")], identity="stdio:plain", namespace=namespace)
    async with serving([plain]) as served:
        assert UI not in await extensions(served)
    async with serving([plain, AppSource("clock")]) as served:
        assert (await extensions(served))[UI] == {}
    plain.has_apps = True
    async with serving([plain]) as served:
        assert (await extensions(served))[UI] == {}
