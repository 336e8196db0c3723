"""What the MCP servers behind a workspace say of themselves reaches the model, marked as their words."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.protocol import names
from support.clients.raw_clients import SessionClient
from support.projects.gateway import Project, running_gateway
from support.servers.mcp_sources.stdio_servers import program

pytestmark = pytest.mark.processes

SAYS = 'initialize_result["instructions"] = "Be kind to strangers."\n'


async def told(project: Project, client: str) -> str:
    """The instructions that this client gets."""
    session = SessionClient(project.gateway.http, project.url)
    me = {"name": client, "version": "1"}
    params = {"protocolVersion": session.revision, "capabilities": {}, "clientInfo": me}
    return str((await session.ask(names.INITIALIZE, params)).result["instructions"])


async def test_they_are_quoted_also_before_the_server_runs_again(tmp_path: Path) -> None:
    started = tmp_path / "started"
    count = f"open({str(started)!r}, 'a').write('x')\n"
    command, *arguments = program(f"{count}{SAYS}serve(echo)")
    async with running_gateway(tmp_path) as gateway:
        project = gateway.project("proj")
        project.servers(friend={"command": command, "args": arguments})
        await project.trust()
        await project.until_listed("friend__echo")
        quoted = "friend:\n> Be kind to strangers."
        assert (await told(project, "opencode")).endswith(quoted)
        assert quoted in (await told(project, "codex-mcp-client")), "it is short"
        assert quoted in (await told(project, "claude-code"))
        (project.root / ".claude").mkdir()
        (project.root / ".claude/settings.json").write_text('{"enableAllProjectMcpServers": true}')
        assert "kind" not in await told(project, "claude-code"), "it starts this server itself"
    async with running_gateway(tmp_path) as gateway:
        project = Project(gateway, project.root)
        runs = started.read_text()
        assert (await told(project, "opencode")).endswith(quoted)
        assert started.read_text() == runs


async def test_a_session_below_the_root_and_the_way_to_other_folders_are_told(tmp_path: Path) -> None:
    """Claude Code's sub-agents in worktrees of their own share its connection."""
    async with running_gateway(tmp_path) as gateway:
        project = gateway.project("proj")
        below = project.root / "packages/web"
        below.mkdir(parents=True)
        for client, has_call_tool in (("claude-code", True), ("opencode", False)):
            said = await told(Project(gateway, below), client)
            assert f"root folder is {project.root}. You work in packages/web below it" in said
            assert (names.CALL_TOOL in said) is has_call_tool
        assert "You work in" not in await told(project, "opencode")


async def test_before_trust_nothing_of_a_server_is_told_but_its_name(tmp_path: Path) -> None:
    command, *arguments = program(f"{SAYS}serve(echo)")
    async with running_gateway(tmp_path) as gateway:
        project = gateway.project("proj")
        project.servers(friend={"command": command, "args": arguments})
        said = await told(project, "opencode")
        assert "friend" in said and "kind" not in said
