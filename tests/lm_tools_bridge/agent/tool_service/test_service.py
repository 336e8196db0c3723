"""The tool service registers, checks and runs tools as MCP and the interface's description say."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from lm_tools_bridge.agent.tool_service import ToolService, ToolServiceError, execute_calls
from lm_tools_bridge.agent.tool_service.service import ConnectionLost

CALCULATOR: dict[str, Any] = {
    "name": "calculator",
    "description": "Perform basic mathematical calculations",
    "inputSchema": {
        "type": "object",
        "properties": {
            "expression": {"type": "string", "description": "Mathematical expression to evaluate"}
        },
        "required": ["expression"],
    },
}


def named(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}}


def calculate(arguments: Mapping[str, Any]) -> str:
    if arguments["expression"] == "2 +":
        raise ValueError("Invalid expression '2 +': Expression is incomplete")
    return "4"


@pytest.fixture
def service() -> ToolService:
    made = ToolService()
    made.register_tool(CALCULATOR, calculate)
    return made


def test_tools_are_listed_in_the_order_of_their_registration(service: ToolService) -> None:
    for name in ("zebra", "apple"):
        service.register_tool(named(name), calculate)
    service.unregister_tool("zebra")
    service.register_tool(named("zebra"), calculate)
    assert [tool["name"] for tool in service.list_tools()] == ["calculator", "apple", "zebra"]
    assert service.list_tools()[0] == CALCULATOR


@pytest.mark.parametrize("schema", [None, {}, {"type": "string"}, {"type": "object", "properties": 7}])
def test_a_tool_needs_a_schema_of_an_object(service: ToolService, schema: Any) -> None:
    with pytest.raises(ValueError, match='Tool "x"'):
        service.register_tool({"name": "x", "inputSchema": schema}, calculate)
    assert len(service.list_tools()) == 1


def test_names_are_unique_and_known(service: ToolService) -> None:
    with pytest.raises(ValueError, match=r'^Tool "calculator" is already registered$'):
        service.register_tool(CALCULATOR, calculate)
    with pytest.raises(ValueError, match=r'^Tool "x" is not registered$'):
        service.unregister_tool("x")
    with pytest.raises(ValueError, match=r'^Tool "x" has no inputSchema of type object$'):
        service.register_tool({"name": "x"}, calculate)


async def test_a_call_gives_a_result_with_content(service: ToolService) -> None:
    result = await service.execute_tool("calculator", {"expression": "2 + 2"})
    assert result == {"content": [{"type": "text", "text": "4"}]}


async def test_a_failing_tool_is_a_result_with_its_error(service: ToolService) -> None:
    result = await service.execute_tool("calculator", {"expression": "2 +"})
    text = "Error: Invalid expression '2 +': Expression is incomplete"
    assert result == {"content": [{"type": "text", "text": text}], "isError": True}


async def test_a_tool_that_takes_too_long_is_ended() -> None:
    service = ToolService(call_s=0.05)

    async def wait(_: Mapping[str, Any]) -> None:
        await asyncio.sleep(60)

    service.register_tool(named("slow"), wait)
    assert (await service.execute_tool("slow"))["isError"] is True


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        (None, {"content": []}),
        ({"x": 1}, {"content": [{"type": "text", "text": '{"x":1}'}]}),
        ([{"type": "image", "data": "eA=="}], {"content": [{"type": "image", "data": "eA=="}]}),
        ({"content": [], "isError": False, "_meta": {"a": 1}}, {"content": [], "_meta": {"a": 1}}),
        ({"content": [], "isError": True}, {"content": [], "isError": True}),
    ],
)
async def test_whatever_a_tool_returns_becomes_a_result(returned: Any, result: Any) -> None:
    service = ToolService()
    service.register_tool(named("x"), lambda _: returned)
    assert await service.execute_tool("x", {}) == result


async def test_unknown_tools_and_wrong_arguments_are_protocol_errors(service: ToolService) -> None:
    with pytest.raises(
        ToolServiceError, match=r"^Tool not found or disabled: calculater; did you mean"
    ) as unknown:
        await service.execute_tool("calculater", {})
    for params in ({}, {"expression": 7}, [1]):
        with pytest.raises(ToolServiceError, match="Invalid arguments for calculator") as wrong:
            await service.execute_tool("calculator", params)
    assert (unknown.value.code, wrong.value.code) == (-32602, -32602)


def test_inputs_are_validated_by_the_whole_schema(service: ToolService) -> None:
    schema = {"type": "object", "properties": {"a": {"oneOf": [{"const": 1}, {"type": "string", "minLength": 2}]}},
              "additionalProperties": False}  # fmt: skip
    service.register_tool({"name": "strict", "inputSchema": schema}, calculate)
    valid = [service.validate_tool_input("strict", {"a": value}) for value in (1, "xx", 2, "x")]
    assert valid == [True, True, False, False]
    assert service.validate_tool_input("strict", {"b": 1}) is False
    assert service.validate_tool_input("strict", 7) is False
    assert service.validate_tool_input("unknown", {}) is False


async def test_lists_come_in_pages(service: ToolService) -> None:
    for number in range(150):
        service.register_tool(named(f"t{number}"), calculate)
    first = await service.handle_tools_list_request()
    second = await service.handle_tools_list_request({"cursor": first["nextCursor"]})
    assert (len(first["tools"]), len(second["tools"]), "nextCursor" in second) == (100, 51, False)
    with pytest.raises(ToolServiceError, match="cursor"):
        await service.handle_tools_list_request({"cursor": "x"})


async def test_a_later_page_follows_whether_the_request_is_given_whole_or_as_parameters(
    service: ToolService,
) -> None:
    for number in range(150):
        service.register_tool(named(f"t{number}"), calculate)
    asked = {"cursor": "100"}
    whole = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": asked}
    for request in (asked, {"params": asked}, whole):
        assert (await service.handle_tools_list_request(request))["tools"][0]["name"] == "t99"
    for first in (None, {}, {"method": "tools/list"}, {"params": None}, {"cursor": None}):
        page = await service.handle_tools_list_request(first)
        assert page["tools"][0]["name"] == "calculator"
    for wrong in ({"cursor": "x"}, {"params": {"cursor": "²"}}, {"params": {"cursor": 100}}):
        with pytest.raises(ToolServiceError, match="cursor"):
            await service.handle_tools_list_request(wrong)


async def test_requests_are_taken_whole_or_as_parameters(service: ToolService) -> None:
    params = {"name": "calculator", "arguments": {"expression": "2 + 2"}}
    for request in (params, {"method": "tools/call", "params": params}):
        assert (await service.handle_tool_call_request(request))["content"][0]["text"] == "4"
    for odd in ({}, {"params": 7}, {"name": 7}):
        with pytest.raises(ToolServiceError, match="the name of the tool is missing"):
            await service.handle_tool_call_request(odd)


def test_changes_are_told_until_unsubscribed(service: ToolService) -> None:
    changes: list[int] = []
    unsubscribe = service.on_tool_list_changed(lambda: changes.append(1))
    service.register_tool(named("x"), calculate)
    service.unregister_tool("x")
    unsubscribe()
    unsubscribe()
    service.register_tool(named("x"), calculate)
    assert len(changes) == 2


async def test_the_names_of_the_description_work_too(service: ToolService) -> None:
    service.registerTool(named("x"), calculate)
    service.unregisterTool("x")
    assert [tool["name"] for tool in service.listTools()] == ["calculator"]
    assert service.validateToolInput("calculator", {"expression": "1"})
    assert (await service.executeTool("calculator", {"expression": "1"}))["content"]
    assert (await service.handleToolsListRequest())["tools"]
    assert (await service.handleToolCallRequest({"name": "calculator", "arguments": {"expression": "1"}}))[
        "content"
    ]


def service_model_calls() -> ToolService:
    made = ToolService()
    for name in ("read", "write"):
        made.register_tool(
            {"name": name, "inputSchema": {"type": "object"}}, lambda _, name=name: f"ran {name}"
        )
    return made


async def test_results_come_in_the_order_of_the_calls() -> None:
    results = await execute_calls(
        service_model_calls().execute_tool,
        [
            {"id": "1", "name": "read", "input": '{"path": "}"}'},
            {"id": "2", "name": "nothing", "input": {}},
            {"id": "3", "name": "write"},
            {"id": "4", "name": "write", "input": "{"},
        ],
    )
    assert results[:3] == [
        {"callId": "1", "content": "ran read"},
        {"callId": "2", "content": "Tool not found or disabled: nothing", "isError": True},
        {"callId": "3", "content": "ran write"},
    ]
    assert results[3]["content"].startswith("Error: arguments are not valid JSON at character")


async def test_blocks_become_text_and_others_are_named() -> None:
    tools = service_model_calls()
    blocks = [{"type": "text", "text": "a"}, {"type": "image", "mimeType": "image/png", "data": "AAAA"}]
    tools.register_tool({"name": "draw", "inputSchema": {"type": "object"}}, lambda _: blocks)
    [result] = await execute_calls(tools.execute_tool, [{"id": "1", "name": "draw"}])
    assert result == {"callId": "1", "content": "a\n[image image/png, 3 bytes]"}


async def test_a_tool_that_fails_is_an_error() -> None:
    tools = service_model_calls()
    tools.register_tool({"name": "fails", "inputSchema": {"type": "object"}}, lambda _: 1 / 0)
    [result] = await execute_calls(tools.execute_tool, [{"id": "1", "name": "fails"}])
    assert result == {"callId": "1", "content": "Error: division by zero", "isError": True}


async def test_a_lost_connection_is_the_result_of_the_call() -> None:
    async def lost(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        raise ConnectionLost("the connection was lost", "unknown")

    [result] = await execute_calls(lost, [{"id": "1", "name": "read"}])
    assert result["content"] == "Error: Tool call failed: the connection was lost"
    assert result["isError"] is True


async def test_without_a_connection_programs_are_told_so() -> None:
    assert await execute_calls(None, [{"id": "1", "name": "read", "input": {}}]) == [
        {"callId": "1", "content": "Error: No MCP client configured", "isError": True}
    ]
