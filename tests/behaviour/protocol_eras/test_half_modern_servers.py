"""Servers that speak MCP 2026-07-28 only in part: the official client shows and uses all that they offer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp_types import methods

from lm_tools_bridge.protocol import names
from support.projects.gateway import Gateway, codes, eventually, listed
from support.projects.registered_setup import registered_setup
from support.servers.mcp_sources.remote_server import Received, ScriptedRemoteServer, fake_remote
from support.servers.scripted.scripted_workspace_server import error, result

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]

BARE: dict[str, Any] = {
    "tools/list": {
        "tools": [
            {"name": "count", "inputSchema": {"type": "object"}, "title": None},
            {"name": "odd", "inputSchema": {"type": "object"}, "description": 5, "annotations": "none"},
        ]
    },
    "resources/list": {"resources": [{"uri": "note:1", "mimeType": 7}]},
    "resources/read": {"contents": [{"uri": "note:1", "text": "a note"}]},
    "tools/call": {"structuredContent": {"n": 1}},
}
"""Results without `resultType`, `ttlMs` and `cacheScope`, and entries that the official client refuses."""


async def half_modern(got: Received) -> Any:
    """Knows no handshake; `initialize` and `server/discover` are unknown methods to it."""
    if got.method in BARE and "_meta" in got.message["params"]:
        return got.result(BARE[got.method])
    return got.error(-32601, "Method not found", 404)


def script(server: ScriptedRemoteServer) -> None:
    for method in ("initialize", "server/discover", "prompts/list", "resources/templates/list", *BARE):
        server.answers[method] = [half_modern]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("prefix", ["half__", ""], ids=["among others", "alone"])
async def test_the_official_client_uses_all_of_a_half_modern_server(
    gateway: Gateway, prefix: str, mode: str
) -> None:
    async with fake_remote() as server:
        script(server)
        project = gateway.project(f"half {mode} {prefix}")
        if prefix:
            project.servers(half={"type": "http", "url": server.url})
        else:
            entry = (
                f'[builtin]\nenabled = false\n[[mcp.remote_servers]]\nnamespace = ""\nurl = "{server.url}"\n'
            )
            (project.root / ".lm-tools-bridge").mkdir(exist_ok=True)
            (project.root / ".lm-tools-bridge/workspace.toml").write_text(entry)
        await project.trust()
        await project.until_listed(f"{prefix}count")

        async def are_read() -> bool:
            return "RESOURCE_MEMBERS_REMOVED" in await codes(project.modern)

        await eventually(are_read)
        async with mcp.Client(project.url, mode=mode, read_timeout_seconds=20) as client:
            shown = {tool.name for tool in (await client.list_tools()).tools}
            assert {f"{prefix}count", f"{prefix}odd"} <= shown
            assert "note:1" in {str(one.uri) for one in (await client.list_resources()).resources}
            called = await client.call_tool(f"{prefix}count", {})
            assert called.structured_content == {"n": 1}
            assert called.content == [], "no text is made up for a client that nobody measured"
            note = await client.read_resource("note:1")
            assert note.contents[0].text == "a note"
        assert "TOOL_MEMBERS_REMOVED" in await codes(project.modern)
        assert "description" not in (await listed(project.modern))[f"{prefix}odd"]


LISTS = {
    names.TOOLS_LIST: {"tools": [{"name": "count", "inputSchema": {"type": "object"}}]},
    names.RESOURCES_LIST: {"resources": [{"uri": "note:1", "name": "note"}], "ttlMs": 5, "x": 1.0},
}


@pytest.mark.parametrize("method", LISTS)
async def test_the_official_client_can_read_the_bare_lists_of_a_registered_server(
    tmp_path: Path, method: str
) -> None:
    """Results without `resultType`, `ttlMs` and `cacheScope`, at the workspace's own address."""
    async with registered_setup(tmp_path) as setup:
        setup.upstream.answers[method] = result(LISTS[method])
        answer = await setup.modern().ask(method)
        assert methods.validate_server_result(method, "2026-07-28", answer.result) is None
        defaults = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        assert answer.result == {**defaults, **LISTS[method]}
        setup.upstream.answers[method] = error(-32601, "no such list", status=404)
        refused = await setup.modern().ask(method)
        assert (refused.status, refused.error["code"]) == (404, -32601)
