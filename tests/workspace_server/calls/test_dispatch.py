"""Calls of tools: directly, through `execute_tool`, from a script; and what they have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from support.clock import VirtualTime
from support.processes.workspace_app import Serving, serving
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.call_context import CallContext
from workspace_server.calls.unknown_tool import EMPTY_SEARCH_WAIT_S, HELPLESS_WAIT_S, LOOK_S, SEARCH_WAIT_S
from workspace_server.catalog.listing import FIRST_WAIT_S
from workspace_server.config.model import Configuration, PolicyDeltas
from workspace_server.sources.builtin.source import BuiltinSource
from workspace_server.tool import CallOutcome, RpcError, Tool, ToolError, ToolResult
from workspace_server.workspace import Workspace

QUERY = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
FOREIGN = b'{"content":[{"type":"odd","n":1.10}],"isError":true,"later":[123456789012345678901234567890]}'


async def plain(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
    return ToolResult(f"got {arguments}", structured=dict(arguments))


async def fails(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
    raise ToolError("no luck", {"why": "chance"})


async def breaks(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
    raise RuntimeError("secret text")


async def foreign(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
    return msgspec.Raw(FOREIGN)


async def wire_error(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
    return RpcError(-32042, "upstream says no", msgspec.Raw(b'{"deep":[1.10]}'))


async def down(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
    return Refusal(Reason.SOURCE_UNAVAILABLE, "up is down", details={"source": "up"})


async def echo_bytes(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
    return ToolResult(bytes(context.arguments).decode())


ANSWERS = {
    "plain": plain, "fails": fails, "breaks": breaks, "foreign": foreign, "wire_error": wire_error, "down": down,
    "echo_bytes": echo_bytes,
}  # fmt: skip


def scripted(*more: Tool) -> ScriptedSource:
    source = ScriptedSource([*(tool(name) for name in ANSWERS), tool("picky", QUERY), *more])
    source.answers = dict(ANSWERS)
    return source


async def raw_answer(served: Serving, name: str, arguments: str) -> bytes:
    """The `result` or `error` member of one call, as bytes."""
    params = f'{{"name":"{name}","arguments":{arguments}}}'
    answer = await served.caller.raw(names.TOOLS_CALL, params, name=name)
    members = msgspec.json.decode(answer, type=dict[str, msgspec.Raw])
    return bytes(members.get("result") or members["error"])


@pytest.mark.parametrize("name", [*ANSWERS, "picky"])
@pytest.mark.parametrize("arguments", ["{}", '{"n":1.10,"s":"\\u00e9","big":123456789012345678901234567890}'])
async def test_execute_tool_answers_byte_for_byte_as_the_tool_itself(name: str, arguments: str) -> None:
    async with serving([scripted()]) as served:
        direct = await raw_answer(served, name, arguments)
        wrapped = await raw_answer(served, "execute_tool", f'{{"name":"{name}","arguments":{arguments}}}')
        assert wrapped == direct
        if name == "foreign":
            assert direct == FOREIGN
        if name == "echo_bytes":
            assert msgspec.json.decode(direct)["content"][0]["text"] == arguments


async def test_errors_of_servers_and_our_refusals_keep_their_form() -> None:
    async with serving([scripted()]) as served:
        error = msgspec.json.decode(await raw_answer(served, "wire_error", "{}"))
        assert error == {"code": -32042, "message": "upstream says no", "data": {"deep": [1.1]}}
        refused = await served.caller.call("down")
        assert refused["isError"] is True
        assert refused["structuredContent"]["error"]["code"] == 47109
        assert refused["structuredContent"]["error"]["details"] == {"source": "up"}
        assert "Next step: " in refused["content"][0]["text"]
        broken = await served.caller.call("breaks")
        assert "secret text" not in str(broken)


async def test_what_is_not_in_the_view_never_runs_whatever_the_way_in() -> None:
    source = scripted()
    source.waiting = {"waiting": "/ws"}

    async def script(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        assert context.toolbox is not None
        return ToolResult("", structured=await context.toolbox.call("plain", {}))

    source.tools = (*source.tools, tool("script"))
    source.answers["script"] = script
    configuration = Configuration(deltas=PolicyDeltas(disabled=("plain",)))
    async with serving([source], configuration=configuration) as served:
        gone = await served.caller.message(names.TOOLS_CALL, {"name": "plain", "arguments": {}})
        assert gone["error"]["message"].startswith("Tool not found or disabled: plain")
        wrapped = await served.caller.call("execute_tool", {"name": "plain"})
        assert wrapped["isError"] is True
        assert wrapped["content"][0]["text"].startswith("Tool not found: plain.")
        nested = await served.caller.call("script")
        assert nested["structuredContent"]["error"]["code"] == -32602
        waiting = await served.caller.call("waiting")
        assert waiting["structuredContent"]["error"]["code"] == 47108
        assert "lmtb trust /ws" in waiting["content"][0]["text"]
        assert await served.caller.call("execute_tool", {"name": "waiting"}) == waiting
        assert [name for name, _ in source.calls] == ["script"]


async def test_tools_called_from_tools_use_the_callers_view_and_are_not_too_deep() -> None:
    depths: list[bool] = []

    async def dig(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        depths.append(context.toolbox is not None)
        if context.toolbox is None:
            return ToolResult("bottom")
        assert {one["name"] for one in await context.toolbox.listed()} >= {"dig", "plain"}
        found = await context.toolbox.call("tool_search", {"query": "dig"})
        assert found["result"]["structuredContent"]["results"][0]["name"] == "dig"
        return ToolResult("", structured=await context.toolbox.call("execute_tool", {"name": "dig"}))

    source = scripted(tool("dig"))
    source.answers["dig"] = dig
    async with serving([source]) as served:
        await served.caller.call("dig")
    assert depths == [True] * 4 + [False]


async def test_search_finds_what_can_be_called_and_is_rebuilt_when_that_changes() -> None:
    source = ScriptedSource(
        [tool("send_email", visibility="ondemand", keywords=("smtp",)), tool("calculator")]
    )
    source.keywords = ("github",)
    async with serving([source]) as served:

        async def found(query: str) -> list[str]:
            result = await served.caller.call("tool_search", {"query": query})
            return [hit["name"] for hit in result["structuredContent"]["results"]]

        assert await found("smtp") == ["send_email"]
        assert await found("github") == ["calculator", "send_email"]
        source.tools = (tool("weather"),)
        assert await found("smtp") == []
        assert await found("") == ["weather"]


@pytest.mark.parametrize("name", ["tool_search", "search_project_tools"])
async def test_a_search_names_the_servers_that_are_still_starting(
    name: str, virtual_time: VirtualTime
) -> None:
    """It waits longer if it found nothing, and never says that other words would help."""
    slow = ScriptedSource([tool("snail")], identity="remote:slow", namespace="slow")
    slow.state = "connecting"
    slow.gate.clear()
    async with serving([scripted(), slow]) as served:
        here, waits = await served.caller.call(name, {"query": "plain"}), [virtual_time.passed]
        nowhere = await served.caller.call(name, {"query": "snail"})
        waits.append(virtual_time.passed - waits[0])
        assert waits == pytest.approx(
            [FIRST_WAIT_S + SEARCH_WAIT_S, SEARCH_WAIT_S + EMPTY_SEARCH_WAIT_S], abs=10 * LOOK_S
        )
        for result in (here, nowhere):
            assert result["structuredContent"]["starting"] == ["slow"]
            assert "slow is still starting" in result["content"][-1]["text"]
        assert here["structuredContent"]["results"][0]["name"] == "plain"
        assert "keywords" not in str(nowhere)
        slow.state = "ready"
        slow.gate.set()
        found = await served.caller.call(name, {"query": "snail"})
        assert [hit["name"] for hit in found["structuredContent"]["results"]] == ["slow__snail"]
        assert "starting" not in found["structuredContent"]


async def test_call_that_takes_too_long_is_cancelled_and_refused(virtual_time: VirtualTime) -> None:
    async def hangs(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        await asyncio.Event().wait()
        raise AssertionError

    source = ScriptedSource([Tool("slow", {"name": "slow", "inputSchema": {"type": "object"}}, timeout_s=60)])
    source.answers["slow"] = hangs
    source.limit_setting = "timeout_s of x in /w/workspace.toml"
    async with serving([source]) as served:
        refused = await served.caller.call("slow")
        error = refused["structuredContent"]["error"]
        assert error["reason"] == "call_timed_out"
        assert error["nextStep"] == "ask for less in one call, or raise timeout_s of x in /w/workspace.toml"
        assert source.cancelled.is_set()
        assert virtual_time.passed == pytest.approx(60, abs=1)


async def test_defaults_of_the_user_reach_the_tool_where_the_caller_is_silent() -> None:
    schema = {"type": "object", "properties": {"limit": {"type": "integer"}}, "additionalProperties": False}
    source = scripted(tool("my_tool", schema))
    source.answers["my_tool"] = echo_bytes
    configuration = Configuration(schema_defaults=(("my_tool", "limit", 7),))
    async with serving([source], configuration=configuration) as served:
        silent = await served.caller.call("my_tool")
        assert silent["content"][0]["text"] == '{"limit":7}'
        said = await served.caller.call("my_tool", {"limit": 3})
        assert said["content"][0]["text"] == '{"limit": 3}'
        read = await served.caller.result(names.RESOURCES_READ, {"uri": "lm-tools://schema/my_tool"})
        assert '"default":7' in read["contents"][0]["text"]


async def test_a_servers_result_against_its_schema_is_passed_on_and_reported() -> None:
    async def wrong(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        return msgspec.Raw(b'{"content":[],"structuredContent":{"n":"x"}}')

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    source = scripted(tool("liar", outputSchema=schema))
    source.answers["liar"] = wrong
    async with serving([source]) as served:
        answer = await served.caller.message(names.TOOLS_CALL, {"name": "liar", "arguments": {}})
        assert answer["result"] == {"content": [], "structuredContent": {"n": "x"}}
        assert [issue.code for issue in served.toolset.issues()] == ["OUTPUT_SCHEMA_MISMATCH"]


async def test_a_refusal_sets_no_structured_content_if_there_is_an_output_schema() -> None:
    source = scripted(tool("strict", outputSchema={"type": "object"}))
    source.answers["strict"] = down
    async with serving([source]) as served:
        refused = await served.caller.call("strict")
        assert "structuredContent" not in refused
        assert refused["_meta"][names.META_ERROR]["error"]["code"] == 47109


async def test_calls_are_traced_only_when_asked_and_without_secrets(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with serving([scripted()]) as served:
        await served.caller.call("plain", {"n": 1})
        assert "tool_call" not in capfd.readouterr().err
    async with serving([scripted()], configuration=Configuration(debug="detail")) as served:
        await served.caller.call("plain", {"n": 1, "api_key": "canary"})
        said = capfd.readouterr().err
        assert '"tool": "plain"' in said
        assert "canary" not in said.replace("got {'n': 1, 'api_key': 'canary'}", "")


class RefusedSource(ScriptedSource):
    """Its server wants a login. Each listing takes a moment, and counts."""

    listings = 0

    async def list_tools(self) -> Sequence[Tool]:
        self.listings += 1
        await asyncio.sleep(0.02)
        return ()


async def test_a_source_that_needs_its_user_is_neither_waited_for_nor_asked_again_and_again(
    virtual_time: VirtualTime,
) -> None:
    """Each look at the sources lists it once more, and each listing that ends is a change."""
    source = RefusedSource(identity="remote:away", namespace="away")
    source.state = "auth_required"
    async with serving([scripted(), source]) as served:
        error = (await served.caller.call("away__x"))["structuredContent"]["error"]
        assert error["reason"] == "source_unavailable"
        assert virtual_time.passed < HELPLESS_WAIT_S + 1
        assert source.listings < 2 + HELPLESS_WAIT_S / LOOK_S


async def test_a_built_in_tool_does_not_wait_for_first_lists_of_other_sources(
    virtual_time: VirtualTime, tmp_path: Path
) -> None:
    slow = ScriptedSource([tool("snail")], identity="remote:slow", namespace="slow")
    slow.gate.clear()
    async with serving([BuiltinSource(Workspace.of(tmp_path)), slow]) as served:
        result = await served.caller.call("datetime", {"operation": "now"})
        assert not result["isError"]
        assert virtual_time.passed < FIRST_WAIT_S / 2
        slow.gate.set()
        assert (await served.caller.call("slow__snail"))["content"]


@pytest.mark.usefixtures("virtual_time")
async def test_a_tool_of_a_source_that_starts_too_slowly_is_not_unknown() -> None:
    """It may be there in a moment."""
    slow = ScriptedSource([tool("x")], identity="stdio:slow", namespace="slow")
    slow.state = "backoff"
    slow.gate.clear()
    async with serving([scripted(), slow]) as served:
        for name, arguments in (("slow__x", {}), ("execute_tool", {"name": "slow__x"})):
            error = (await served.caller.call(name, arguments))["structuredContent"]["error"]
            assert (error["reason"], error["delivered"]) == ("source_unavailable", "no")
            assert error["retryAfterMs"] == 1000
            assert error["details"]["source"] == "stdio:slow"
        other = await served.caller.message(names.TOOLS_CALL, {"name": "other__x", "arguments": {}})
        assert other["error"]["code"] == -32602
        slow.state = "ready"
        slow.gate.set()
        assert (await served.caller.call("slow__x"))["content"][0]["text"] == "x ran"
