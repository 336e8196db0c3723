"""What an agent is shown of a project that has no servers, and what that costs its model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.tools.definitions import GET_DIAGNOSTICS
from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.text.text_tokens import text_tokens
from manager.routing.client_profiles import OTHER, PROFILES, ClientProfile
from support.clients.raw_clients import SessionClient, StatelessClient
from support.projects.gateway import Project, listed, running_gateway
from workspace_server.methods.inspection import tokens

pytestmark = pytest.mark.processes

BUILT_IN = {
    "calculator", "datetime", "lm_findFiles", "lm_findTextInFiles", "lm_listDirectory", "lm_readFile"
}  # fmt: skip
WITH_OWN_TOOLS = 700
WITHOUT = 2_000
"""Tokens of tools and instructions, at most."""


@pytest.fixture
async def project(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Project]:
    async with running_gateway(tmp_path, **getattr(request, "param", {})) as gateway:
        yield gateway.project("proj")


def name_of(profile: ClientProfile) -> str:
    return profile.names[0].replace("*", "x")


async def stateless_list(project: Project, name: str) -> set[str]:
    client = StatelessClient(project.gateway.http, project.url)
    me = {names.META_CLIENT: {"name": name, "version": "2"}}
    answer = await client.ask(names.TOOLS_LIST, {"_meta": me})
    return {tool["name"] for tool in answer.result["tools"]}


async def opened(project: Project, name: str) -> tuple[SessionClient, str]:
    """A session of a client, and the instructions that it got."""
    client = SessionClient(project.gateway.http, project.url)
    me = {"name": name, "version": "1"}
    params = {"protocolVersion": client.revision, "capabilities": {}, "clientInfo": me}
    answer = await client.ask(names.INITIALIZE, params)
    client.session = answer.headers[headers.SESSION]
    return client, str(answer.result["instructions"])


def cost(tools: Mapping[str, Mapping[str, Any]], instructions: str) -> int:
    """The estimate, with diagnostics: whether a checker is installed here must not matter."""
    checked = {GET_DIAGNOSTICS.name: GET_DIAGNOSTICS.definition, **tools}
    return round(sum(map(tokens, checked.values())) + text_tokens(instructions))


@pytest.mark.parametrize("profile", (*PROFILES, OTHER), ids=lambda profile: str(profile.title))
async def test_a_project_without_servers_costs_each_client_little(
    project: Project, profile: ClientProfile
) -> None:
    client, instructions = await opened(project, name_of(profile))
    tools = await listed(client)
    assert cost(tools, instructions) <= (WITH_OWN_TOOLS if profile.has_file_tools else WITHOUT)
    assert BUILT_IN & tools.keys() == (set() if profile.has_file_tools else BUILT_IN)
    assert await stateless_list(project, name_of(profile)) == tools.keys()


async def test_what_is_left_out_of_a_list_is_called_found_and_described_all_the_same(
    project: Project,
) -> None:
    (project.root / "notes.txt").write_text("kept\n")
    client = await project.session_of("opencode")
    assert "lm_readFile" not in await listed(client)
    read = (await client.call("lm_readFile", {"filePath": "notes.txt"})).result
    assert "kept" in read["content"][0]["text"]
    hits = (await client.call("tool_search", {"query": "read a file"})).result
    assert "lm_readFile" in hits["content"][0]["text"]
    client.extra["X-MCP-Show-All"] = "true"
    assert (await listed(client)).keys() >= BUILT_IN


@pytest.mark.parametrize(
    "project", [{"has_file_tools": "opencode=no, my-agent=yes"}], indirect=True, ids=["setting"]
)
async def test_a_setting_says_for_a_client_whether_it_has_file_tools(project: Project) -> None:
    assert (await listed(await project.session_of("opencode"))).keys() >= BUILT_IN
    assert not BUILT_IN & (await listed(await project.session_of("my-agent"))).keys()
    assert not BUILT_IN & (await listed(await project.session_of("claude-code"))).keys()


async def test_a_tool_that_the_user_chose_a_visibility_for_is_listed_to_all(project: Project) -> None:
    project.gateway.configure(f'[visibility."{project.root}".tools]\nlm_findFiles = "native"\n')
    for name in ("claude-code", "opencode", "somebody"):
        assert BUILT_IN & await stateless_list(project, name) >= {"lm_findFiles"}
    assert BUILT_IN & await stateless_list(project, "claude-code") == {"lm_findFiles"}


async def test_handshakes_describe_to_each_client_what_its_list_has(project: Project) -> None:
    for name, shown in (("opencode", set()), ("somebody", BUILT_IN), ("opencode", set())):
        client = SessionClient(project.gateway.http, project.gateway.manager.address)
        me = {"name": name, "version": "1"}
        params = {"protocolVersion": client.revision, "capabilities": {}, "clientInfo": me}
        client.session = (await client.ask(names.INITIALIZE, params)).headers[headers.SESSION]
        discovery = (await client.handshake(project.root)).payload["discovery"]
        assert {tool["name"] for tool in discovery["bridgedTools"]} & BUILT_IN == shown
        assert (await listed(client)).keys() & BUILT_IN == shown
