"""The official SDK's client in each of its modes, with two projects at once."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import mcp
import pytest
import pytest_asyncio
from mcp.client.streamable_http import streamable_http_client

from lm_tools_bridge.protocol import names
from support.processes.managers.manager_in_process import RunningManager, make_project, running_manager

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]
MODES = ["legacy", "auto", "2026-07-28"]
EVERY_MODE = pytest.mark.parametrize("mode", MODES)
OWN_TOOLS = [names.HANDSHAKE, names.CALL_TOOL]


@dataclass
class ProjectsSetup:
    """A manager with three projects; `nonces` has the content of the file `nonce.txt` of each."""

    manager: RunningManager
    projects: list[Path]
    nonces: list[str]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ProjectsSetup]:
    folder = tmp_path_factory.mktemp("sdk").resolve()
    labels = ["alpha", "beta", "größe ☕"]
    nonces = [f"nonce of {label}" for label in labels]
    projects = [
        make_project(folder / label, **{"nonce.txt": nonce})
        for label, nonce in zip(labels, nonces, strict=True)
    ]
    async with running_manager(folder / "manager", announce_hold_s=0.4) as manager:
        yield ProjectsSetup(manager, projects, nonces)


@contextlib.asynccontextmanager
async def connected(
    url: str, mode: str, events: list[str] | None = None, headers: dict[str, str] | None = None
) -> AsyncIterator[mcp.Client]:
    """A client whose error hook must stay silent; `events` collects the notifications it gets."""
    faults: list[Exception] = []

    async def handler(message: Any) -> None:
        if isinstance(message, Exception):
            faults.append(message)
        elif events is not None:
            events.append(message.method)

    async with contextlib.AsyncExitStack() as stack:
        server: Any = url
        if headers:
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers))
            server = streamable_http_client(url, http_client=http)
        client = mcp.Client(server, mode=mode, message_handler=handler, read_timeout_seconds=20)
        yield await stack.enter_async_context(client)
    assert faults == []


def content(answer: Any) -> dict[str, Any]:
    """The structured content of a result that must be no error."""
    assert not answer.is_error, answer
    assert answer.structured_content is not None
    found: dict[str, Any] = answer.structured_content
    return found


async def handshake(client: mcp.Client, project: Path) -> dict[str, Any]:
    return content(await client.call_tool(names.HANDSHAKE, {"cwd": str(project)}))


async def nonce_through(client: mcp.Client, **claims: str) -> str:
    """What `nonce.txt` says in the workspace that callTool reaches."""
    wrapped = {"name": "lm_readFile", "arguments": {"filePath": "nonce.txt"}, **claims}
    return str(content(await client.call_tool(names.CALL_TOOL, wrapped))["content"])


async def nonce_directly(client: mcp.Client) -> str:
    return str(content(await client.call_tool("lm_readFile", {"filePath": "nonce.txt"}))["content"])


@EVERY_MODE
async def test_two_clients_in_two_projects_at_once(setup: ProjectsSetup, mode: str) -> None:
    """Each gets its own workspace, by binding, by handle and by cwd."""
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(setup.manager.address, mode)) for _ in range(2)]
        payloads = await asyncio.gather(*map(handshake, clients, setup.projects[:2]))
        assert payloads[0]["workspace"] != payloads[1]["workspace"]
        assert payloads[0]["target"]["port"] != payloads[1]["target"]["port"]
        for client, project, nonce, payload in zip(
            clients, setup.projects[:2], setup.nonces[:2], payloads, strict=True
        ):
            assert payload["cwd"] == str(project)
            assert payload["target"]["workspaceFolders"] == [str(project)]
            assert ("mcpSessionId" in payload) == (mode == "legacy")
            assert await nonce_through(client, workspace=payload["workspace"]) == nonce
            assert await nonce_through(client, cwd=str(project / ".git")) == nonce
            if mode == "legacy":
                assert await nonce_through(client) == nonce
                assert await nonce_directly(client) == nonce


@EVERY_MODE
async def test_discovery_names_what_the_list_shows(setup: ProjectsSetup, mode: str) -> None:
    """In a session the list depends on the binding; without one it is constant."""
    async with connected(setup.manager.address, mode) as client:
        before = [tool.name for tool in (await client.list_tools()).tools]
        assert before == OWN_TOOLS
        discovery = (await handshake(client, setup.projects[0]))["discovery"]
        bridged = [tool["name"] for tool in discovery["bridgedTools"]]
        assert {"lm_readFile", "lm_findFiles", "calculator"} <= set(bridged)
        assert (discovery["partial"], discovery["issues"]) == (False, [])
        tools = (await client.list_tools(cache_mode="bypass")).tools
        assert [tool.name for tool in tools][:2] == OWN_TOOLS
        assert {tool.name for tool in tools[2:]} == (set(bridged) if mode == "legacy" else set())
        own = tools[1]
        assert discovery["callTool"] == {
            "name": own.name,
            "description": own.description,
            "inputSchema": own.input_schema,
        }


@EVERY_MODE
@pytest.mark.parametrize("form", ["query", "header", "base64 header", "path"])
async def test_a_projects_own_url(setup: ProjectsSetup, mode: str, form: str) -> None:
    """The URL names the workspace: no handshake, and only the workspace's own entries in lists."""
    project, nonce = setup.projects[2 if form == "base64 header" else 1], setup.nonces
    url, headers = setup.manager.address, {}
    if form == "query":
        url = f"{url}?cwd={project}"
    elif form == "header":
        headers["X-Workspace-Cwd"] = str(project)
    elif form == "base64 header":
        headers["X-Workspace-Cwd"] = f"=?base64?{base64.b64encode(str(project).encode()).decode()}?="
    else:
        async with connected(url, "auto") as finder:
            url = f"{setup.manager.base}/w/{(await handshake(finder, project))['workspace']}/mcp"
    async with connected(url, mode, headers=headers) as client:
        shown = [tool.name for tool in (await client.list_tools()).tools]
        assert "lm_readFile" in shown
        assert not set(shown) & set(OWN_TOOLS)
        assert await nonce_directly(client) == nonce[setup.projects.index(project)]
        uris = [str(one.uri) for one in (await client.list_resources()).resources]
        assert names.URI_NAMES in uris
        assert names.URI_HANDSHAKE not in uris


@EVERY_MODE
async def test_resources_of_the_manager_and_of_the_workspace(setup: ProjectsSetup, mode: str) -> None:
    async with connected(setup.manager.address, mode) as client:
        uris = [str(one.uri) for one in (await client.list_resources()).resources]
        assert uris == [names.URI_HANDSHAKE, names.URI_CALL_TOOL]
        assert names.CALL_TOOL in await text_of(client, names.URI_CALL_TOOL)
        assert '"ready":false' in (await text_of(client, names.URI_HANDSHAKE)).replace(" ", "")
        with pytest.raises(mcp.MCPError) as refused:
            await client.read_resource(names.URI_NAMES)
        assert refused.value.error.code == 47100
    async with connected(f"{setup.manager.address}?cwd={setup.projects[0]}", mode) as client:
        listed = json.loads(await text_of(client, names.URI_NAMES))["tools"]
        assert "calculator" in listed
        tool = json.loads(await text_of(client, f"{names.URI_TOOL}calculator"))
        schema = json.loads(await text_of(client, f"{names.URI_SCHEMA}calculator"))
        shown = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tool["inputSchema"] == schema["inputSchema"] == shown["calculator"].input_schema


async def text_of(client: mcp.Client, uri: str) -> str:
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, mcp.types.TextResourceContents)
    return contents.text


async def test_a_bound_session_reads_both_kinds_of_resources(setup: ProjectsSetup) -> None:
    """The manager's two first; the snapshot tells the truth."""
    async with connected(setup.manager.address, "legacy") as client:
        payload = await handshake(client, setup.projects[0])
        uris = [str(one.uri) for one in (await client.list_resources()).resources]
        assert uris[:3] == [names.URI_HANDSHAKE, names.URI_CALL_TOOL, names.URI_NAMES]
        assert "calculator" in await text_of(client, names.URI_NAMES)
        told = (await text_of(client, names.URI_HANDSHAKE)).partition("Status snapshot:\n")[2]
        snapshot = json.loads(told)
        assert snapshot["ready"] is snapshot["online"] is snapshot["workspaceSetExplicitly"] is True
        assert snapshot["workspace"] == payload["workspace"]
        assert snapshot["cwd"] == str(setup.projects[0])
        assert snapshot["target"]["port"] == payload["target"]["port"]


async def test_list_changes_are_notified_before_the_handshake_is_answered(setup: ProjectsSetup) -> None:
    """In this order, on the server stream or on the call's own, never on both."""
    events: list[str] = []
    async with connected(setup.manager.address, "legacy", events) as client:
        await client.list_tools()
        await handshake(client, setup.projects[0])
        events.append("answer")
        await client.list_tools()
        await handshake(client, setup.projects[0])
        await client.list_tools(cache_mode="bypass")
    assert events == [names.RESOURCES_CHANGED, names.PROMPTS_CHANGED, names.TOOLS_CHANGED, "answer"]


@EVERY_MODE
async def test_refusals_are_results_that_a_model_can_read(setup: ProjectsSetup, mode: str) -> None:
    """No exception in the client, the next step in the text."""
    async with connected(setup.manager.address, mode) as client:
        for name, arguments in (
            ("lm_findFiles", {"query": "*"}),
            (names.CALL_TOOL, {"name": "lm_findFiles", "arguments": {"query": "*"}}),
        ):
            answer = await client.call_tool(name, arguments)
            assert answer.is_error
            assert answer.structured_content is not None
            assert answer.structured_content["error"]["code"] == 47100
            assert "Next step: call lmToolsBridge.requestWorkspaceMCPServer" in answer.content[0].text
