"""The shortest use: handshake, list, call."""

from __future__ import annotations

from pathlib import Path

import mcp

from support.processes.managers.manager_in_process import RunningManager, make_project


async def test_a_session_client_binds_and_calls(manager: RunningManager, tmp_path: Path) -> None:
    project = make_project(tmp_path / "proj")
    async with mcp.Client(manager.address, mode="legacy") as client:
        handshake = await client.call_tool("lmToolsBridge.requestWorkspaceMCPServer", {"cwd": str(project)})
        assert handshake.structured_content is not None
        assert handshake.structured_content["ok"] is True
        tools = await client.list_tools()
        assert [tool.name for tool in tools.tools][:2] == [
            "lmToolsBridge.requestWorkspaceMCPServer",
            "lmToolsBridge.callTool",
        ]
        direct = await client.call_tool("calculator", {"expression": "6*7"})
        assert direct.structured_content == {"value": 42}
