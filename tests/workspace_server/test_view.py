"""Modes of a request and what they list."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from support.tool_source import PlayedSource, tool
from workspace_server.registry import Registry
from workspace_server.view import Mode, listed, mode_of


@pytest.mark.parametrize(
    ("header", "query", "mode"),
    [
        ({}, {}, Mode.NORMAL),
        ({"x-mcp-show-all": "TRUE"}, {}, Mode.SHOW_ALL),
        ({"X-MCP-Show-All": "1"}, {}, Mode.NORMAL),
        ({"X-MCP-Show-All": "yes"}, {}, Mode.NORMAL),
        ({}, {"show_all": "true"}, Mode.SHOW_ALL),
        ({"X-MCP-Show-All": "false"}, {"show_all": "true"}, Mode.NORMAL),
        ({"X-MCP-Show-All": ""}, {"show_all": "true"}, Mode.NORMAL),
        ({"X-MCP-Tool-Mode": "bogus"}, {"tool_mode": ""}, Mode.NORMAL),
    ],
)
def test_mode_comes_from_a_present_header_else_from_the_query(
    header: dict[str, str], query: dict[str, str], mode: Mode
) -> None:
    """T-33, T-34."""
    assert mode_of(CIMultiDict(header), query) is mode


async def test_on_demand_tools_are_listed_only_when_everything_is_asked_for() -> None:
    """T-32."""
    tools = [tool(name, visibility=name) for name in ("always", "native", "ondemand")]
    snapshot = await Registry([PlayedSource(tools)]).snapshot()
    assert [offered.name for offered in listed(snapshot.tools, Mode.NORMAL)] == ["always", "native"]
    assert len(listed(snapshot.tools, Mode.SHOW_ALL)) == 3
