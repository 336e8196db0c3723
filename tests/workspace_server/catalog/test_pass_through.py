"""When a workspace of one server is passed through."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.issues import Issue
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.catalog.registry import Registry
from workspace_server.catalog.view import build_view
from workspace_server.config.model import (
    Approval,
    Configuration,
    EntryOrigin,
    PolicyDeltas,
    StdioServer,
    VisibilityChoices,
)
from workspace_server.methods.pass_through import pass_through_server
from workspace_server.tool import Tool


def server(*tools: Tool, namespace: str | None = None, **members: Any) -> ScriptedSource:
    """A server without namespace."""
    scripted = ScriptedSource(
        tools or (tool("echo"), tool("files.read")), identity="stdio:theirs", namespace=namespace
    )
    scripted.kind = "stdio"
    for name, value in members.items():
        setattr(scripted, name, value)
    return scripted


async def is_sole(one: ScriptedSource, *others: ScriptedSource, **configured: Any) -> bool:
    view = build_view(await Registry([one, *others]).snapshot(), Configuration(**configured))
    found = pass_through_server(view)
    assert found in (None, one)
    return found is one


def others(**members: Any) -> ScriptedSource:
    """A second server, without tools."""
    return server(namespace="other", id="stdio:other", tools=(), **members)


async def test_an_only_server_is_passed_through_in_any_state() -> None:
    scripts = ScriptedSource()
    assert await is_sole(server(), scripts, others(state="disabled"))
    assert await is_sole(server(state="backoff", tools=()), scripts)


@pytest.mark.parametrize(
    "one",
    [
        server(namespace="theirs"),
        server(state="pending_trust"),
        server(state="disabled"),
        server(include=("echo", "files.read")),
        server(exclude=("none",)),
        server(default="exposed"),
        server(tool("echo", visibility="ondemand")),
        server(tool("echo", visibility="always")),
        server(tool("echo"), tool("tool_search")),
        server(tool("echo"), tool("openllm_secret")),
        server(tool("run_in_terminal")),
    ],
    ids=lambda one: (
        f"{one.namespace} {one.state} {one.include} {one.exclude} {one.default} {one.tools[0].name}"
    ),
)
async def test_a_server_whose_entry_or_tools_are_not_as_it_came_is_not(one: ScriptedSource) -> None:
    assert not await is_sole(one)


@pytest.mark.parametrize(
    "code", ["TOOL_MEMBERS_REMOVED", "RESOURCE_MEMBERS_REMOVED", "TOOL_NAME_INVALID", "TOOL_SCHEMA_INVALID"]
)
async def test_a_server_whose_lists_a_client_would_refuse_is_not(code: str) -> None:
    one = server()
    one.found = [Issue("warning", "schema", code, "")]
    assert not await is_sole(one)


async def test_a_server_whose_calls_may_become_tasks_of_ours_is_not() -> None:
    """Requests about them would reach the server."""
    entry = StdioServer("theirs", ("x",), EntryOrigin(Path("/x"), "user"), task="optional")
    assert await is_sole(server(), stdio=(replace(entry, enabled=False),))
    assert not await is_sole(server(), stdio=(entry,))


@pytest.mark.parametrize(
    "other",
    [
        ScriptedSource((tool("mine"),)),
        others(),
        others(state="pending_trust"),
        others(state="failed"),
    ],
    ids=["script", "ready", "pending", "failed"],
)
async def test_a_server_beside_others_is_not(other: ScriptedSource) -> None:
    assert not await is_sole(server(), other)


async def test_nor_is_one_beside_a_script_that_waits_for_trust() -> None:
    scripts = ScriptedSource()
    scripts.waiting = {"mine": "/srv/proj"}
    assert not await is_sole(server(), scripts)


def approvals(**decisions: Approval) -> dict[str, Approval]:
    return decisions


@pytest.mark.parametrize(
    ("configured", "sole"),
    [
        ({"deltas": PolicyDeltas(disabled=("echo",))}, False),
        ({"deltas": PolicyDeltas(unexposed=("files_read",))}, False),
        ({"deltas": PolicyDeltas(disabled=("nothing",), enabled=("echo",))}, True),
        ({"approvals": approvals(echo="ask")}, False),
        ({"approvals": approvals(echo="allow", nothing="deny")}, True),
        ({"schema_defaults": (("echo", "text", "x"),)}, False),
        ({"visibility": VisibilityChoices({"echo": "ondemand"})}, False),
        ({"visibility": VisibilityChoices(sources={"stdio:theirs": "always"})}, False),
        ({"visibility": VisibilityChoices({"nothing": "ondemand", "echo": "native"})}, True),
    ],
)
async def test_a_policy_counts_where_it_is_about_the_servers_own_tools(
    configured: dict[str, Any], sole: bool
) -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    assert await is_sole(server(tool("echo", schema), tool("files.read")), **configured) is sole


@pytest.mark.parametrize(
    "configured",
    [
        {"deltas": PolicyDeltas(disabled=("nothing",))},
        {"approvals": approvals(nothing="deny")},
        {"visibility": VisibilityChoices({"nothing": "ondemand"})},
    ],
)
async def test_an_unlisted_server_may_have_any_tool_that_the_policy_names(
    configured: dict[str, Any],
) -> None:
    assert not await is_sole(server(tools=()), **configured)


async def test_any_name_waits_for_a_server_without_namespace_that_is_not_trusted() -> None:
    """What is nearly the name of a tool is mistyped."""
    waiting = server(state="pending_trust", trust_path="/srv/proj")
    view = build_view(await Registry([waiting, ScriptedSource([tool("calculator"), tool("off")])]).snapshot(),
                Configuration(deltas=PolicyDeltas(disabled=("off",))))  # fmt: skip
    paths = {
        name: view.trust_path_for(name) for name in ("echo", "calculatr", "off", "openllm_x", names.HANDSHAKE)
    }
    assert paths == {
        "echo": "/srv/proj", "calculatr": None, "off": None, "openllm_x": None, names.HANDSHAKE: "/srv/proj",
    }  # fmt: skip


async def test_a_server_without_namespace_that_is_down_may_have_any_tool() -> None:
    down = server(tools=(), state="backoff")
    view = build_view(await Registry([down]).snapshot(), Configuration())
    assert view.source_without_list("echo") is down
