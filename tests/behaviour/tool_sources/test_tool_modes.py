"""Tool modes: which tools a list shows.

One manager and one project with a tool of every visibility serve all tests but the last.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from lm_tools_bridge.protocol import names
from manager.admin.control.project_command import ServerCommand
from support.clients.raw_clients import Client, SessionClient, StatelessClient
from support.http.event_stream import next_message
from support.processes.timeouts import within
from support.projects.gateway import Gateway, Project, found, listed, running_gateway, text_of
from support.projects.registered_setup import raw_http
from support.servers.mcp_sources.remote_server import fake_remote
from support.servers.mcp_sources.stdio_servers import program

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]
OWN = {names.HANDSHAKE, names.CALL_TOOL}
META = {"tool_search", "execute_tool"}
NATIVE = {
    "calculator",
    "datetime",
    "lm_readFile",
    "lm_listDirectory",
    "lm_findFiles",
    "lm_findTextInFiles",
    "plain",
}
CODE_INTELLIGENCE = {
    "lm_getDiagnostics",
    "lm_findSymbol",
    "lm_symbolInfo",
    "lm_references",
    "lm_implementations",
    "lm_callHierarchy",
    "lm_typeHierarchy",
    "lm_fileOutline",
    "lm_codeAction",
    "lm_renameSymbol",
    "lm_editSymbol",
}
"""On demand, and callable before a language server is known to be there."""
SHOWN = {
    "normal": NATIVE | {"steady"} | META,
    "discovery": META | {"steady"},
    "show-all": NATIVE | {"steady", "shy"} | CODE_INTELLIGENCE,
}
MODE, ALL = "X-MCP-Tool-Mode", "X-MCP-Show-All"
ENDPOINTS = pytest.mark.parametrize(
    "endpoint", ["stateless, query", "stateless, path", "session, query", "session, bound"]
)
ASKED: dict[str, tuple[dict[str, str], str, str]] = {
    "nothing": ({}, "", "normal"),
    "header": ({MODE: "discovery"}, "", "discovery"),
    "header in any case": ({MODE: "DISCOVERY"}, "", "discovery"),
    "header of another word": ({MODE: "bogus"}, "", "normal"),
    "empty header": ({MODE: ""}, "", "normal"),
    "query": ({}, "tool_mode=Discovery", "discovery"),
    "header hides query": ({MODE: "x"}, "tool_mode=discovery", "normal"),
    "show all": ({ALL: "TRUE"}, "", "show-all"),
    "show all by query": ({}, "show_all=true", "show-all"),
    "show all takes one word": ({ALL: "1"}, "show_all=true", "normal"),
    "show all says yes": ({ALL: "yes"}, "", "normal"),
    "both": ({MODE: "discovery", ALL: "true"}, "", "discovery"),
    "both by query": ({}, "show_all=true&tool_mode=discovery", "discovery"),
}

CHOICES = {
    "plain": "ondemand",
    "shy": "always",
    "steady": "native",
    "calculator": "ondemand",
    "datetime": "always",
    "stdio:near": "ondemand",
    "remote:far": "ondemand",
}
"""What the user chooses for tools and sources of every kind."""


def furnish(gateway: Gateway) -> Project:
    """A project, and a user with a tool of every visibility."""
    for name, visibility in (("plain", "native"), ("shy", "ondemand"), ("steady", "always")):
        gateway.user_tool(name, f"print('{name}')", f'visibility = "{visibility}"\nkeywords = ["{name}"]')
    return gateway.project("proj")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def project(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Project]:
    async with running_gateway(tmp_path_factory.mktemp("modes")) as gateway:
        yield furnish(gateway)


async def client_at(project: Project, endpoint: str) -> Client:
    """A session or stateless client, at the workspace's URL or bound to it."""
    http = project.gateway.http
    if endpoint == "session, bound":
        return await project.legacy()
    if endpoint == "session, query":
        return await SessionClient.connect(http, project.url)
    if endpoint == "stateless, query":
        return project.modern
    workspace = (await project.modern.handshake(project.root)).payload["workspace"]
    return StatelessClient(http, f"{project.gateway.manager.base}/w/{workspace}/mcp")


def with_query(url: str, query: str) -> str:
    return url if not query else f"{url}{'&' if '?' in url else '?'}{query}"


@ENDPOINTS
async def test_each_request_chooses_its_tool_mode(project: Project, endpoint: str) -> None:
    """On one connection; the manager's own tools are listed at `/mcp` only."""
    client = await client_at(project, endpoint)
    own = OWN if endpoint == "session, bound" else set()
    for name, (headers, query, mode) in ASKED.items():
        client.extra = headers
        assert (await listed(client, url=with_query(client.url, query))).keys() == SHOWN[mode] | own, name


@ENDPOINTS
async def test_an_unlisted_tool_can_be_found_and_called(project: Project, endpoint: str) -> None:
    """Meta-tools are callable where they are not listed, too."""
    client = await client_at(project, endpoint)
    for headers in ({}, {MODE: "discovery"}, {ALL: "true"}):
        client.extra = headers
        assert {"shy", "plain", "steady", "calculator"} <= set(await found(client, ""))
        assert await found(client, "shy") == ["shy"]
        name = "plain" if headers.get(MODE) else "shy"
        assert await text_of(client, "execute_tool", name=name) == name
    assert await text_of(client, "shy") == "shy"


@pytest.mark.parametrize("pure", [True, False])
async def test_a_session_keeps_its_initial_tool_mode(project: Project, pure: bool) -> None:
    """A value on the request wins, whichever way it is said; each session has its own."""
    url, own = (project.url, set()) if pure else (project.gateway.manager.address, OWN)
    http = project.gateway.http
    discovering = await initialized(http, with_query(url, "tool_mode=discovery"))
    showing = await initialized(http, url, {ALL: "true"})
    for client in (discovering, showing):
        client.url = url
        if not pure:
            await client.handshake(project.root)
    for _ in range(2):
        assert (await listed(discovering)).keys() == SHOWN["discovery"] | own
        assert (await listed(showing)).keys() == SHOWN["show-all"] | own
    discovering.extra = {MODE: "normal"}
    assert (await listed(discovering)).keys() == SHOWN["normal"] | own
    discovering.extra = {}
    assert (await listed(discovering, url=with_query(url, "tool_mode="))).keys() == SHOWN["normal"] | own
    assert (await listed(discovering)).keys() == SHOWN["discovery"] | own


async def initialized(http: ClientSession, url: str, headers: dict[str, str] | None = None) -> SessionClient:
    """A session whose `initialize` alone carries these headers."""
    opening = SessionClient(http, url)
    opening.extra = headers or {}
    me = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": me}
    answer = await opening.ask(names.INITIALIZE, params)
    client = SessionClient(http, url)
    client.session = answer.headers["Mcp-Session-Id"]
    return client


async def test_a_handshake_in_discovery_mode_names_all_tools(project: Project) -> None:
    """Discovery describes what can be called; the mode is about lists."""
    client = await initialized(project.gateway.http, project.gateway.manager.address, {MODE: "discovery"})
    bridged = (await client.handshake(project.root)).payload["discovery"]["bridgedTools"]
    assert NATIVE | {"steady"} | META == {tool["name"] for tool in bridged}


async def test_the_users_choice_applies_to_tools_of_every_source_at_once(
    tmp_path: Path,
) -> None:
    """It wins over what their own files say, is announced, and needs no restart."""
    async with fake_remote() as remote, running_gateway(tmp_path.resolve()) as gateway:
        project = furnish(gateway)
        command, *arguments = program("serve(echo)")
        near, far = {"command": command, "args": arguments}, {"type": "http", "url": remote.url}
        project.servers(near=near, far=far)
        await project.trust()
        await project.until_listed("near__echo", "far__echo", "calculator")
        lmtb = ServerCommand(gateway.manager.paths, lambda: None)
        client = await project.legacy()
        await listed(client)
        async with client.stream() as stream:
            for name, visibility in CHOICES.items():
                of_source = ":" in name
                answer = await lmtb.change_visibility(
                    str(project.root), name, visibility, of_source=of_source
                )
                assert not isinstance(answer, str), answer
            async with asyncio.timeout(within(5)):
                while (await next_message(stream))["method"] != names.TOOLS_CHANGED:
                    pass
        now = (await listed(project.modern)).keys()
        assert not now & {"plain", "near__echo", "far__echo", "calculator"}
        assert {"shy", "steady"} <= now
        client.extra = {MODE: "discovery"}
        assert {"shy", "datetime"} <= (await listed(client)).keys()
        assert "steady" not in await listed(client)
        assert (await found(project.modern, "far__echo"))[0] == "far__echo"
        other = gateway.project("other")
        assert "plain" in await listed(other.modern), "another project is not concerned"


async def test_a_sessions_tool_mode_survives_a_manager_restart(tmp_path: Path) -> None:
    """The next manager knows the session, and how it began."""
    folder = tmp_path.resolve()
    async with running_gateway(folder) as gateway:
        project = furnish(gateway)
        client = await initialized(gateway.http, gateway.manager.address, {MODE: "discovery"})
        await client.handshake(project.root)
        before = await listed(client)
    async with running_gateway(folder) as gateway, raw_http() as http:
        client.http, client.url = http, gateway.manager.address
        assert await listed(client) == before
        assert before.keys() == SHOWN["discovery"] | OWN
