"""Servers of project files that a client starts itself are not in its list a second time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol import names
from manager.cli.output.overview import problems
from support.clients.raw_clients import StatelessClient
from support.projects.gateway import Project, eventually, listed, running_gateway
from support.servers.mcp_sources.stdio_servers import program

pytestmark = pytest.mark.processes


def entry() -> dict[str, Any]:
    command, *arguments = program("serve(echo)")
    return {"command": command, "args": arguments}


@pytest.fixture
async def project(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Project]:
    async with running_gateway(tmp_path, **getattr(request, "param", {})) as gateway:
        project = gateway.project("proj")
        project.servers(theirs=entry())
        await project.trust()
        await project.until_listed("theirs__echo")
        yield project


def answered(project: Project, **answers: object) -> None:
    """Write what the user answered to Claude Code, where it writes that."""
    folder = project.root / ".claude"
    folder.mkdir(exist_ok=True)
    (folder / "settings.local.json").write_text(json.dumps(answers))


async def test_claude_code_gets_no_tool_of_its_own_file_but_can_call_it(project: Project) -> None:
    answered(project, enabledMcpjsonServers=["theirs"])
    client = await project.session_of("claude-code")
    assert "theirs__echo" not in await listed(client)
    assert (await client.call("theirs__echo")).result["content"]


@pytest.mark.parametrize("answers", [{}, {"disabledMcpjsonServers": ["theirs"]}], ids=["none", "refused"])
async def test_a_server_that_claude_code_was_not_allowed_is_offered_to_it(
    project: Project, answers: dict[str, object]
) -> None:
    """Continuing without it is what its dialog proposes; then nobody else offers its tools."""
    answered(project, **answers)
    client = await project.session_of("claude-code")
    assert "theirs__echo" in await listed(client)
    answered(project, enabledMcpjsonServers=["theirs"])
    assert "theirs__echo" not in await listed(client)


async def test_claude_code_below_the_root_counts_the_answers_of_its_own_folder(project: Project) -> None:
    """It has the servers of the root's file, but not the answers that were given there."""
    below = project.root / "packages/web"
    below.mkdir(parents=True)
    answered(project, enabledMcpjsonServers=["theirs"])
    client = await Project(project.gateway, below).session_of("claude-code")
    assert "theirs__echo" in await listed(client)
    (below / ".claude").mkdir()
    (below / ".claude/settings.local.json").write_text('{"enabledMcpjsonServers": ["theirs"]}')
    assert "theirs__echo" not in await listed(client)


async def test_claude_code_that_asks_nobody_starts_what_was_not_refused(project: Project) -> None:
    client = await project.session_of("claude-code")
    client.extra["User-Agent"] = "claude-code/2.1.332 (sdk-cli)"
    assert "theirs__echo" not in await listed(client)
    answered(project, disabledMcpjsonServers=["theirs"])
    assert "theirs__echo" in await listed(client)


async def test_the_user_is_told_who_starts_a_server_itself_and_only_if_so(project: Project) -> None:
    async def is_told() -> bool:
        async with project.gateway.http.get(project.gateway.manager.base + "/mcp/status") as response:
            status = await response.json()
        return any('Claude Code starts "theirs"' in problem for problem in problems(status))

    client = await project.session_of("claude-code")
    answered(project, enableAllProjectMcpServers=True)
    await listed(client)
    await eventually(is_told, 20.0)  # the server tells of its sources with its health
    answered(project)
    await listed(client)
    assert not await is_told()


async def test_a_stateless_client_is_recognised_as_well(project: Project) -> None:
    answered(project, enabledMcpjsonServers=["theirs"])
    client = StatelessClient(project.gateway.http, project.url)
    me = {"name": "claude-code", "version": "2"}
    answer = await client.ask(names.TOOLS_LIST, {"_meta": {names.META_CLIENT: me}})
    assert "theirs__echo" not in {tool["name"] for tool in answer.result["tools"]}


async def test_other_clients_get_all_tools(project: Project) -> None:
    assert "theirs__echo" in await listed(await project.session_of("codex-mcp-client"))


async def test_a_request_for_all_tools_gets_them(project: Project) -> None:
    answered(project, enabledMcpjsonServers=["theirs"])
    client = await project.session_of("claude-code")
    client.extra["X-MCP-Show-All"] = "true"
    assert "theirs__echo" in await listed(client)


@pytest.mark.parametrize("project", [{"hide_own_servers": False}], indirect=True)
async def test_a_setting_shows_them_again(project: Project) -> None:
    answered(project, enabledMcpjsonServers=["theirs"])
    assert "theirs__echo" in await listed(await project.session_of("claude-code"))


@pytest.mark.parametrize(
    "project", [{"own_files": "my-agent@2.*=.mcp.json, claude-code=none"}], indirect=True
)
async def test_a_user_can_say_which_files_a_client_starts_itself(project: Project) -> None:
    answered(project, enabledMcpjsonServers=["theirs"])
    assert "theirs__echo" in await listed(await project.session_of("claude-code"))
    client = StatelessClient(project.gateway.http, project.url)
    for version, is_shown in (("2.1", False), ("3.0", True)):
        me = {"name": "my-agent", "version": version}
        answer = await client.ask(names.TOOLS_LIST, {"_meta": {names.META_CLIENT: me}})
        assert ("theirs__echo" in {tool["name"] for tool in answer.result["tools"]}) is is_shown
