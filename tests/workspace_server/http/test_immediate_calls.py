"""Calls of tools that only compute are answered without a task, with the same bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol import headers, names
from support.clients.stateless_requests import body_of, headers_of
from support.processes.workspace_app import Serving, serving
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.calls.approvals import Approvals
from workspace_server.calls.gate import CallGate, RateLimiter
from workspace_server.calls.request_state import RequestStates
from workspace_server.catalog.registry import Registry
from workspace_server.config.model import Configuration
from workspace_server.config.policy import PolicyDeltas
from workspace_server.sources.builtin.source import BuiltinSource
from workspace_server.tool import ToolResult
from workspace_server.workspace import Workspace

SUM = {"name": "calculator", "arguments": {"expression": "1 + 1"}}


@asynccontextmanager
async def both(folder: Path, **configured: Any) -> AsyncIterator[tuple[Serving, Serving]]:
    """The same server twice: one that knows its configuration without waiting, and one that does not."""
    configuration = Configuration(**configured)
    states = RequestStates("w")
    ways = []
    for at_once in (True, False):
        source, gate = BuiltinSource(Workspace.of(folder)), CallGate(Approvals(states), RateLimiter())
        ways.append(serving([source], configuration=configuration, gate=gate, at_once=at_once))
    async with ways[0] as short, ways[1] as long:
        for one in (short, long):
            await one.caller.result(names.TOOLS_LIST)
        yield short, long


async def answer(
    served: Serving, params: Mapping[str, Any], changed: Mapping[str, str]
) -> tuple[int, str, bytes]:
    body = body_of(names.TOOLS_CALL, dict(params))
    sent = {**headers_of(body), **changed}
    async with served.session.post(f"{served.base}/mcp", data=json.dumps(body), headers=sent) as response:
        return response.status, response.content_type, await response.read()


@pytest.mark.parametrize(
    ("params", "changed", "configured"),
    [
        (SUM, {}, {}),
        ({**SUM, "arguments": {"expression": "1 +"}}, {}, {}),
        ({**SUM, "arguments": {"expression": 2**200}}, {}, {}),
        ({**SUM, "arguments": {"expression": 1, "more": 2}}, {}, {}),
        ({**SUM, "arguments": []}, {}, {}),
        ({"name": "calculator"}, {}, {}),
        ({**SUM, "arguments": {"expression": "\ud800"}}, {}, {}),
        (SUM, {headers.PASS_THROUGH: "1"}, {}),
        (SUM, {"Mcp-Param-X": "y"}, {}),
        (SUM, {headers.NAME: "datetime"}, {}),
        (SUM, {}, {"approvals": {"calculator": "deny"}}),
        (SUM, {}, {"approvals": {"calculator": "ask"}}),
        (SUM, {}, {"deltas": PolicyDeltas(disabled=("calculator",))}),
        (SUM, {}, {"builtin": False}),
        ({**SUM, "requestState": "made up"}, {}, {}),
        ({**SUM, "inputResponses": {"approval": {"action": "accept"}}}, {}, {}),
        ({"name": "execute_tool", "arguments": {"name": "calculator"}}, {}, {}),
        ({"name": "lm_listDirectory", "arguments": {}}, {}, {}),
        ({"name": "nothing", "arguments": {}}, {}, {}),
    ],
)
async def test_the_short_way_answers_as_the_long_one_does(
    tmp_path: Path, params: dict[str, Any], changed: dict[str, str], configured: dict[str, Any]
) -> None:
    async with both(tmp_path, **configured) as (short, long):
        assert await answer(short, params, changed) == await answer(long, params, changed)


async def test_only_what_needs_no_waiting_is_answered_without_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with both(tmp_path) as ways:
        counts = []
        for served in ways:
            made: list[str] = []
            with monkeypatch.context() as patch:
                loop = asyncio.get_running_loop()
                create = loop.create_task

                def noted(*args: Any, made: list[str] = made, create: Any = create, **more: Any) -> Any:
                    made.append(str(more.get("name")))
                    return create(*args, **more)

                patch.setattr(loop, "create_task", noted)
                await answer(served, SUM, {})
            counts.append(made.count("request"))
        assert counts == [0, 1]


async def test_a_tool_that_appears_is_seen_by_the_next_call(tmp_path: Path) -> None:
    """Also where the last view would have answered at once."""
    source = ScriptedSource([tool("a")])
    source.cached_tools = lambda: source.tools  # it answers from memory
    source.nowait_tools = frozenset({"a", "b"})
    source.call_nowait = lambda name, arguments: ToolResult(name)
    async with serving([source]) as served:
        await served.caller.result(names.TOOLS_LIST)
        assert (await served.caller.call("a"))["content"][0]["text"] == "a"
        source.tools = (tool("b"),)
        assert (await served.caller.call("b"))["content"][0]["text"].startswith("b")
        assert (await served.caller.error(names.TOOLS_CALL, {"name": "a", "arguments": {}}))["code"] == -32602


async def test_a_look_that_fails_is_answered_with_the_id_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also where the call would have been answered at once, or was known."""

    def failing(_: Registry) -> bool:
        raise OSError("the disk is gone")

    async with both(tmp_path) as (short, _):
        for _ in range(4):
            before = await answer(short, SUM, {})
        with monkeypatch.context() as patch:
            patch.setattr(Registry, "is_unchanged", property(failing))
            patch.setattr(Registry, "snapshot", failing)
            status, _, said = await answer(short, SUM, {})
        assert (status, json.loads(said)["id"]) == (500, 1)
        assert capfd.readouterr().err.count("method_failed") == 1
        assert await answer(short, SUM, {}) == before
