"""The tools of the workspace for a running script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.projects.script_tools import Scripts, script_source
from workspace_server.call_context import CallContext
from workspace_server.results import encode_result
from workspace_server.sources.scripts import bridge
from workspace_server.sources.scripts.slots import Slots
from workspace_server.tool import ToolResult

CALLS = """
import lmtb_tool as t
seen = {"names": [tool["name"] for tool in t.list_tools()], "found": t.tool_search("words", 3)}
seen["text"] = t.call_tool("echo", {"a": "é"})
seen["object"] = t.execute_tool("structured")
for name in ("fails", "none"):
    try:
        t.call_tool(name)
    except t.ToolCallFailed as failed:
        seen[name] = str(failed)
t.return_object(seen)
"""


class Box:
    """A toolbox whose tools are coroutine functions of the test."""

    def __init__(self, **tools: Any) -> None:
        self.tools = tools
        self.requests: list[tuple[str, Mapping[str, Any]]] = []

    async def listed(self) -> list[Mapping[str, Any]]:
        return [{"name": name} for name in self.tools]

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        self.requests.append((name, arguments))
        if name not in self.tools:
            return {"error": {"code": -32602, "message": f"Tool not found or disabled: {name}"}}
        outcome = self.tools[name]
        return {
            "result": encode_result(outcome if isinstance(outcome, ToolResult) else await outcome(arguments))
        }


async def test_a_script_lists_finds_and_calls_tools(tmp_path: Path) -> None:
    box = Box(
        echo=ToolResult("said"),
        structured=ToolResult("{}", structured={"n": 1}),
        fails=ToolResult("Error: no", is_error=True),
        tool_search=ToolResult("[]", structured={"results": [{"name": "echo"}], "total": 1}),
    )
    async with script_source(tmp_path) as scripts:
        scripts.write("t", CALLS)
        outcome = await scripts.call("t", CallContext(toolbox=box))
    assert isinstance(outcome, ToolResult)
    assert outcome.structured == {
        "names": ["echo", "structured", "fails", "tool_search"],
        "found": [{"name": "echo"}],
        "text": "said",
        "object": {"n": 1},
        "fails": "Error: no",
        "none": "Tool not found or disabled: none",
    }
    assert box.requests[:2] == [("tool_search", {"query": "words", "max_results": 3}), ("echo", {"a": "é"})]


async def test_nested_scripts_share_one_slot_and_their_depth_is_limited(tmp_path: Path) -> None:
    """With a single slot and a limited depth."""
    async with script_source(tmp_path, slots=Slots(1, 5)) as scripts:
        scripts.write("t", "import lmtb_tool as t\nt.return_object([t.get('depth'), t.call_tool('t', {})])\n")
        outcome = await scripts.call("t", CallContext(toolbox=_nested(scripts, 2)), depth=1)
    assert isinstance(outcome, ToolResult)
    # the innermost has no toolbox any more
    assert "tools cannot be called from here" in outcome.text


def _nested(scripts: Scripts, depth: int) -> Box:
    async def call(_: Mapping[str, Any]) -> ToolResult:
        inner = CallContext(toolbox=_nested(scripts, depth - 1) if depth > 1 else None)
        outcome = await scripts.call("t", inner, depth=depth)
        assert isinstance(outcome, ToolResult)
        return outcome

    return Box(t=call)


async def test_permission_ends_with_the_call(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def slow(_: Mapping[str, Any]) -> ToolResult:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            gone.set()
            raise
        return ToolResult("")

    script = """
import os, socket
folder = os.path.dirname(os.environ["LMTB_TOOL_ARGS_FILE"])
connection = socket.socket(socket.AF_UNIX)
connection.connect(folder + "/tools.sock")
connection.sendall(b'{"do": "call", "name": "slow"}\\n')
while not os.path.exists("called"): pass
print(folder)
"""
    async with script_source(tmp_path) as scripts:
        scripts.write("t", script)

        async def noted(arguments: Mapping[str, Any]) -> ToolResult:
            (scripts.root / "called").touch()
            return await slow(arguments)

        outcome = await scripts.call("t", CallContext(toolbox=Box(slow=noted)))
        assert isinstance(outcome, ToolResult)
        assert gone.is_set()
        assert not Path(outcome.text).exists()


@pytest.mark.parametrize("line", ["", "x", "[]", "1", "{}", '{"do": "x"}', '{"do": "call"}', '{"do": "call", "name": 1}',
                                  '{"do": "call", "name": "t", "arguments": [1]}', "[" * 100_000])  # fmt: skip
async def test_an_invalid_request_is_answered_by_an_error(tmp_path: Path, line: str) -> None:
    box = Box()
    async with bridge.serve(tmp_path, box, Slots()):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / bridge.SOCKET))
        writer.write(line.encode() + b'\n{"do": "list"}\n')
        assert json.loads(await reader.readline())["error"]["code"] == -32600
        assert json.loads(await reader.readline()) == {"tools": []}
        writer.close()
        await writer.wait_closed()
    assert box.requests == []


async def test_an_exception_of_a_tool_is_answered_by_an_error(tmp_path: Path) -> None:
    async def broken(_: Mapping[str, Any]) -> ToolResult:
        raise RuntimeError("secret")

    async with bridge.serve(tmp_path, Box(t=broken), Slots()):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / bridge.SOCKET))
        writer.write(b'{"do": "call", "name": "t"}\n')
        answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
    assert json.loads(answer)["error"]["code"] == -32603
    assert b"secret" not in answer
