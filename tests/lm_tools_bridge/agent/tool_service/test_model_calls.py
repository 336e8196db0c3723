"""Programs run the calls of their own model in one go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_tools_bridge.agent.tool_service import ToolService, execute_calls
from lm_tools_bridge.agent.tool_service.errors import ConnectionLost


def service() -> ToolService:
    made = ToolService()
    for name in ("read", "write"):
        made.register_tool(
            {"name": name, "inputSchema": {"type": "object"}}, lambda _, name=name: f"ran {name}"
        )
    return made


async def test_results_come_in_the_order_of_the_calls() -> None:
    results = await execute_calls(
        service().execute_tool,
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
    tools = service()
    blocks = [{"type": "text", "text": "a"}, {"type": "image", "mimeType": "image/png", "data": "AAAA"}]
    tools.register_tool({"name": "draw", "inputSchema": {"type": "object"}}, lambda _: blocks)
    [result] = await execute_calls(tools.execute_tool, [{"id": "1", "name": "draw"}])
    assert result == {"callId": "1", "content": "a\n[image image/png, 3 bytes]"}


async def test_a_tool_that_fails_is_an_error() -> None:
    tools = service()
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
