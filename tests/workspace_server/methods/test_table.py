"""The methods over real HTTP, with scripted sources."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import headers, names
from support.clients.stateless_requests import Caller, body_of, events, headers_of
from support.processes.workspace_app import Serving, serving
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.call_context import CallContext
from workspace_server.catalog import toolset as toolset_module
from workspace_server.tool import InvalidArguments, ToolError, ToolResult

QUERY = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "maxResults": {"type": "integer"}},
    "required": ["query"],
    "additionalProperties": False,
}


async def test_discover_lists_one_revision_and_the_capabilities_with_handlers() -> None:
    async with serving([ScriptedSource([tool("a")])]) as served:
        result = await served.caller.result(names.DISCOVER)
        assert result["supportedVersions"] == ["2026-07-28"]
        kinds = {"tools", "resources", "prompts", "completions", "logging", "extensions"}
        assert set(result["capabilities"]) == kinds
        assert result["capabilities"]["resources"] == {"listChanged": True, "subscribe": True}
        assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
        assert result["_meta"][names.META_SERVER]["version"] == "1.2.3"


HEADED = {"type": "object", "properties": {"a": {"type": "array", "x-mcp-header": "A"}}}
"""A schema whose tool may not be offered."""


async def test_pages_of_tools_make_up_the_whole_list_and_issues_come_once() -> None:
    tools = [tool(f"t{index:02}") for index in range(7)] + [tool("bad", HEADED)]
    async with serving([ScriptedSource(tools)], settings={"page_size": 3}) as served:
        found: list[str] = []
        params: dict[str, Any] = {}
        issues = []
        while True:
            result = await served.caller.result(names.TOOLS_LIST, params)
            assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
            found += [entry["name"] for entry in result["tools"]]
            issues.append(result["_meta"].get(names.META_ISSUES))
            if "nextCursor" not in result:
                break
            params = {"cursor": result["nextCursor"]}
        assert found == [f"t{index:02}" for index in range(7)]
        assert [issue["code"] for issue in issues[0]] == ["TOOL_SCHEMA_INVALID"]
        assert issues[1:] == [None, None]
        error = await served.caller.error(names.TOOLS_LIST, {"cursor": "nonsense"})
        assert error["code"] == -32602


async def test_definitions_keep_unknown_members() -> None:
    async with serving([ScriptedSource([tool("a", vendor={"x": [1, None]})])]) as served:
        (entry,) = (await served.caller.result(names.TOOLS_LIST))["tools"]
        assert entry["vendor"] == {"x": [1, None]}


async def test_show_all_lists_on_demand_tools_by_header_and_by_query() -> None:
    async with serving([ScriptedSource([tool("a"), tool("b", visibility="ondemand")])]) as served:
        assert len((await served.caller.result(names.TOOLS_LIST))["tools"]) == 3
        asking = Caller(served.session, f"{served.base}/mcp?show_all=true")
        assert len((await asking.result(names.TOOLS_LIST))["tools"]) == 2
        await served.caller.call("b")


async def test_invalid_arguments_never_reach_the_tool() -> None:
    source = ScriptedSource([tool("find", QUERY)])
    async with serving([source]) as served:
        result = await served.caller.call("find", {"maxResults": "ten", "glob": "*"})
        assert result["isError"] is True
        assert result["content"][0]["text"].startswith("Error: invalid arguments for find\n")
        errors = result["structuredContent"]["error"]["details"]["errors"]
        assert {error["pointer"] for error in errors} == {"/query", "/maxResults", "/glob"}
        assert source.calls == []


async def test_missing_arguments_are_an_empty_object() -> None:
    source = ScriptedSource([tool("a")])
    async with serving([source]) as served:
        await served.caller.result(names.TOOLS_CALL, {"name": "a"})
        assert source.calls == [("a", {})]


@pytest.mark.parametrize(
    ("params", "member"),
    [
        ({}, "params.name"),
        ({"name": 5}, "params.name"),
        ({"name": "a", "arguments": []}, "params.arguments"),
        ({"name": "a", "arguments": "{}"}, "params.arguments"),
        ({"name": "a", "arguments": None}, "params.arguments"),
    ],
)
async def test_malformed_call_is_a_protocol_error_naming_the_member(
    params: dict[str, Any], member: str
) -> None:
    source = ScriptedSource([tool("a")])
    async with serving([source]) as served:
        error = await served.caller.error(names.TOOLS_CALL, params)
        assert error["code"] == -32602
        assert member in error["message"]
        assert source.calls == []


async def test_unknown_tool_is_answered_with_near_matches() -> None:
    async with serving([ScriptedSource([tool("calculator")])]) as served:
        error = await served.caller.error(names.TOOLS_CALL, {"name": "calculater"})
        assert error["code"] == -32602
        assert error["message"].startswith("Tool not found or disabled: calculater.")
        assert error["data"]["reason"] == "tool_not_found"
        assert "calculator" in error["data"]["nextStep"]
        assert error["data"]["details"] == {"nearest": ["calculator"]}


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (ToolError("it is closed"), "Error: it is closed"),
        (InvalidArguments("/path", "outside the workspace"), "/path: outside the workspace"),
        (OSError(2, "No such file", "/home/someone/secret"), "Error: a failed unexpectedly"),
        (TimeoutError(), "Error: a failed unexpectedly"),
    ],
)
async def test_failing_tool_answers_with_a_result_that_leaks_nothing(raised: Exception, text: str) -> None:
    source = ScriptedSource([tool("a")])

    async def fail(arguments: Any, context: CallContext) -> ToolResult:
        raise raised

    source.answers["a"] = fail
    async with serving([source]) as served:
        result = await served.caller.call("a")
        assert result["isError"] is True
        assert text in result["content"][0]["text"]
        assert "/home/someone" not in json.dumps(result)
        assert "Traceback" not in json.dumps(result)


async def test_result_that_breaks_its_own_output_schema_becomes_an_error() -> None:
    source = ScriptedSource([tool("a", outputSchema={"type": "object", "required": ["n"]})])
    async with serving([source]) as served:
        result = await served.caller.call("a")
        assert result["isError"] is True
        assert "structuredContent" not in result
        assert names.META_ERROR in result["_meta"]


async def test_a_servers_result_is_passed_on_byte_for_byte() -> None:
    foreign = b'{ "content":[],"big":123456789012345678901234567890,\n "resultType":"complete","x":1.10 }'
    source = ScriptedSource([tool("a")])

    async def answer(arguments: Any, context: CallContext) -> msgspec.Raw:
        return msgspec.Raw(foreign)

    source.answers["a"] = answer
    async with serving([source]) as served, served.caller.open(names.TOOLS_CALL, {"name": "a"}) as response:
        assert foreign in await response.read()


async def test_progress_goes_out_before_the_result_on_the_same_stream() -> None:
    source = ScriptedSource([tool("a")])

    async def work(arguments: Any, context: CallContext) -> ToolResult:
        await context.progress(1, 2, "half")
        await context.progress(2, None, None)
        return ToolResult("done")

    source.answers["a"] = work
    async with serving([source]) as served:
        async with served.caller.open(names.TOOLS_CALL, {"name": "a"}, progressToken="tok") as response:
            assert response.headers["X-Accel-Buffering"] == "no"
            first, second, last = await events(response, 3)
        assert first["method"] == "notifications/progress"
        assert first["params"] == {"progressToken": "tok", "progress": 1, "total": 2, "message": "half"}
        assert second["params"] == {"progressToken": "tok", "progress": 2}
        assert last["result"]["content"] == [{"type": "text", "text": "done"}]
        async with served.caller.open(names.TOOLS_CALL, {"name": "a"}) as response:
            assert response.content_type == "application/json"


async def test_annotated_parameter_without_its_header_is_a_header_mismatch() -> None:
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    source = ScriptedSource([tool("a", schema)])
    async with serving([source]) as served:
        params = {"name": "a", "arguments": {"region": "eu"}}
        async with served.caller.open(names.TOOLS_CALL, params) as response:
            assert response.status == 400
            assert (await response.json())["error"]["code"] == -32020
        assert source.calls == []
        body = body_of(names.TOOLS_CALL, params)
        sent = {**headers_of(body), headers.UNMIRRORED: "1"}  # the manager says that the client could not
        async with served.session.post(f"{served.base}/mcp", json=body, headers=sent) as response:
            assert (response.status, (await response.json())["result"]["structuredContent"]) == (
                200,
                {"ran": "a"},
            )


async def test_resources_are_the_names_and_one_entry_per_tool() -> None:
    async with serving(
        [ScriptedSource([tool("b", description="B"), tool("a", visibility="ondemand")])]
    ) as served:
        listed = (await served.caller.result(names.RESOURCES_LIST))["resources"]
        uris = [entry["uri"] for entry in listed]
        assert uris == ["lm-tools://names", "lm-tools://tool/a", "lm-tools://tool/b"]
        templates = (await served.caller.result(names.TEMPLATES_LIST))["resourceTemplates"]
        assert {entry["uriTemplate"] for entry in templates} == {
            "lm-tools://tool/{name}",
            "lm-tools://schema/{name}",
        }
        read = await served.caller.result(names.RESOURCES_READ, {"uri": "lm-tools://names"})
        (content,) = read["contents"]
        assert content["text"] == '{"tools":["a","b"]}'
        assert (content["uri"], content["mimeType"]) == ("lm-tools://names", "application/json")
        assert (read["ttlMs"], read["cacheScope"]) == (0, "private")


async def test_tool_resource_describes_the_tool_as_it_is_listed() -> None:
    source = ScriptedSource(
        [tool("find", QUERY, description="Do NOT use this.", keywords=("k",), annotations={})]
    )
    async with serving([source]) as served:
        (listed,) = (await served.caller.result(names.TOOLS_LIST))["tools"]
        assert "keywords" not in listed
        read = await served.caller.result(names.RESOURCES_READ, {"uri": "lm-tools://tool/find"})
        described = json.loads(read["contents"][0]["text"])
        assert described.pop("usageHint")["mode"] == "do-not-use"
        assert described == {
            "name": "find",
            "description": "Do NOT use this.",
            "tags": ["k"],
            "inputSchema": listed["inputSchema"],
            "annotations": {},
            "source": "script",
            "visibility": "native",
            "toolUri": "lm-tools://tool/find",
            "schemaUri": "lm-tools://schema/find",
        }
        read = await served.caller.result(names.RESOURCES_READ, {"uri": "lm-tools://schema/f%69nd"})
        assert json.loads(read["contents"][0]["text"]) == {"name": "find", "inputSchema": QUERY}
        assert read["contents"][0]["uri"] == "lm-tools://schema/f%69nd"


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("lm-tools://schema/nope", "Tool not found or disabled: nope"),
        ("lm-tools://tool/f%2569nd", "Tool not found or disabled: f%69nd"),
        ("lm-tools://other", "Resource not found: lm-tools://other"),
        ("file:///etc/passwd", "Resource not found: file:///etc/passwd"),
    ],
)
async def test_unknown_resource_is_an_error_that_names_its_uri(uri: str, text: str) -> None:
    async with serving([ScriptedSource([tool("find")])]) as served:
        error = await served.caller.error(names.RESOURCES_READ, {"uri": uri})
        assert error["code"] == -32602
        assert error["message"].startswith(text)
        assert error["data"]["details"]["uri"] == error["data"]["uri"] == uri


async def test_completion_gives_at_most_a_hundred_names_with_the_prefix() -> None:
    tools = [tool(f"t{index:03}") for index in range(120)] + [tool("other")]
    async with serving([ScriptedSource(tools)]) as served:
        ref = {"type": "ref/resource", "uri": "lm-tools://tool/{name}"}

        async def complete(value: str) -> dict[str, Any]:
            params = {"ref": ref, "argument": {"name": "name", "value": value}}
            found: dict[str, Any] = (await served.caller.result(names.COMPLETE, params))["completion"]
            return found

        many = await complete("t")
        assert (len(many["values"]), many["total"], many["hasMore"]) == (100, 120, True)
        assert (await complete("oth"))["values"] == ["other"]
        error = await served.caller.error(names.COMPLETE, {"ref": {"type": "ref/resource", "uri": "x://"}})
        assert error["code"] == -32602


async def test_prompts_are_an_empty_list() -> None:
    async with serving([ScriptedSource([tool("a")])]) as served:
        assert (await served.caller.result(names.PROMPTS_LIST))["prompts"] == []
        assert (await served.caller.error(names.PROMPTS_GET, {"name": "p"}))["code"] == -32602


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "tools/lisst", "tasks/list"])
async def test_unknown_or_removed_method_is_404_with_the_id(method: str) -> None:
    """Clients with sessions read this, too: no revision is named that is not theirs."""
    async with serving([ScriptedSource()]) as served, served.caller.open(method) as response:
        answer = await response.json()
        assert (response.status, answer["id"]) == (404, 1)
        assert answer["error"] == {"code": -32601, "message": f"method not found: {method}"}


async def test_source_that_breaks_the_list_answer_is_a_fault_with_the_id(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken() -> None:
        raise RuntimeError("private detail")

    async with serving([ScriptedSource()]) as served:
        monkeypatch.setattr(served.toolset, "current", broken)
        error = await served.caller.error(names.TOOLS_LIST)
        assert error["code"] == -32603
        assert "private" not in error["message"]
        assert "private" not in capsys.readouterr().err


async def listening(served: Serving, kinds: dict[str, bool], identity: int | str) -> Any:
    body = body_of(names.LISTEN, {"notifications": kinds}, identity)
    return await served.session.post(f"{served.base}/mcp", data=json.dumps(body), headers=headers_of(body))


@pytest.mark.parametrize("identity", [7, "listen:0"])
async def test_listen_acknowledges_then_tells_of_changes_then_ends_with_a_result(
    identity: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolset_module, "COALESCE_S", 0.02)
    source = ScriptedSource([tool("a")])
    async with serving([source]) as served:
        await served.caller.result(names.TOOLS_LIST)
        response = await listening(served, {"toolsListChanged": True, "promptsListChanged": False}, identity)
        assert response.headers["X-Accel-Buffering"] == "no"
        meta = {names.META_SUBSCRIPTION: identity}
        (ack,) = await events(response, 1)
        assert ack["method"] == "notifications/subscriptions/acknowledged"
        assert ack["params"] == {"notifications": {"toolsListChanged": True}, "_meta": meta}
        source.tools = (tool("b"),)
        served.toolset.touch()
        (change,) = await events(response, 1)
        assert change["method"] == "notifications/tools/list_changed"
        assert change["params"]["_meta"] == meta
        served.life.stop("test")
        (end,) = await events(response, 1)
        assert end == {"jsonrpc": "2.0", "id": identity, "result": {"resultType": "complete", "_meta": meta}}
        assert await response.content.read() == b""


async def test_quiet_listen_stream_carries_comments() -> None:
    async with serving([ScriptedSource([tool("a")])], keep_alive_s=0.02) as served:
        response = await listening(served, {}, 1)
        async with asyncio.timeout(5):
            assert b"acknowledged" in await response.content.readuntil(b"\n\n")
            assert await response.content.readuntil(b"\n\n") == b": keep-alive\n\n"
        response.close()


async def test_listen_without_a_filter_is_invalid() -> None:
    async with serving([ScriptedSource()]) as served:
        bad: list[dict[str, Any]] = [{}, {"notifications": []}, {"notifications": "{}"}]
        for params in bad:
            assert (await served.caller.error(names.LISTEN, params))["code"] == -32602
