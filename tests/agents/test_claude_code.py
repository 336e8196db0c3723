"""What is particular to Claude Code: it refuses tools that left the list, and asks its user about project servers."""

from __future__ import annotations

import json

import pytest

from support.clients.agent_workplace import SLOW_S, Workplace, script
from support.servers.mcp_sources.stdio_servers import program

pytestmark = pytest.mark.parametrize("workplace", ["claude-code"], indirect=True)
TEXT = "größe ☕"
REFUSES_OTHERS = """
def other(m):
    if "id" in m: say({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}})
"""
"""Claude Code waits for an answer to what only newer servers know."""
OWN = "mcp__theirs__echo"
"""The name of a tool that Claude Code has from a server it started itself."""


async def test_a_model_goes_on_with_execute_tool_when_all_servers_are_there(workplace: Workplace) -> None:
    """The tools of the server are in the list by then; what the model was shown before still works."""
    workplace.add_server(SLOW_S)
    searches = workplace.calls("tool_search", query="text")
    steps = script(searches, workplace.executes("demo__text", text=TEXT), workplace.reads("nonce.txt"))
    _, found, called, read = (await workplace.work(steps)).requests
    assert "demo__text" in found.last_result
    assert TEXT in called.last_result
    for request in (called, read):
        assert {"tool_search", "execute_tool", "demo__text"} <= workplace.offered(request)


async def _with_project_server(workplace: Workplace) -> None:
    """A server in `.mcp.json` that the user trusts here."""
    command, *arguments = program(f"{REFUSES_OTHERS}serve(echo)")
    servers = {"mcpServers": {"theirs": {"command": command, "args": arguments}}}
    (workplace.project / ".mcp.json").write_text(json.dumps(servers))
    trusted = await workplace.home.lmtb("trust", "--yes", cwd=workplace.project)
    assert trusted.code == 0, trusted


def _answers(workplace: Workplace, **answers: object) -> None:
    """What the user answered in Claude Code's dialog, where it writes that."""
    file = workplace.project / ".claude/settings.local.json"
    file.parent.mkdir()
    file.write_text(json.dumps(answers))


async def test_a_server_that_its_user_refused_is_offered_by_us(workplace: Workplace) -> None:
    await _with_project_server(workplace)
    _answers(workplace, disabledMcpjsonServers=["theirs"])
    model = await workplace.work(script(workplace.calls("theirs__echo", text=TEXT)))
    first, second = model.requests
    assert "theirs__echo" in workplace.offered(first)
    assert OWN not in first.tools
    assert TEXT in second.last_result


async def test_a_server_that_it_starts_itself_is_there_once(workplace: Workplace) -> None:
    """With `-p` it starts each that was not refused."""
    await _with_project_server(workplace)
    steps = script(*[workplace.reads("nonce.txt")] * 3)
    requests = (await workplace.work(steps)).requests
    assert OWN in requests[-1].tools
    assert all("theirs__echo" not in workplace.offered(request) for request in requests)
