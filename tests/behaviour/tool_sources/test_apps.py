"""MCP Apps through the manager: servers of both eras behind it, clients of both eras in front of it."""

from __future__ import annotations

import json
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol import apps_extension, headers, names
from support.clients.raw_clients import Client, SessionClient, StatelessClient
from support.projects.gateway import Gateway, Project, eventually, listed
from support.servers.mcp_sources import app_server

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]
APPS = {"extensions": apps_extension.CLIENT_EXTENSIONS}
PAGE = app_server.PAGE
MOVED = {name: f"ui://{name}+time/page.html" for name in ("timeapp", "clock")}
"""The address of a server's page, if the other one listed its tools first."""
_numbers = count()


class AppSession(SessionClient):
    """A client with a session that shows apps."""

    capabilities = APPS


def command(*arguments: str) -> str:
    return json.dumps([sys.executable, str(Path(app_server.__file__)), *arguments])


@pytest.fixture(params=["session", "stateless"])
def with_apps(gateway: Gateway, request: pytest.FixtureRequest) -> Project:
    """A project with two servers whose tools and pages have the same names."""
    project = gateway.project(f"apps-{next(_numbers)}")
    stateless = ["--stateless"] if request.param == "stateless" else []
    servers = [
        f'[[mcp.stdio_servers]]\nnamespace = "{name}"\ncommand = {command(name, *stateless)}\n'
        for name in ("timeapp", "clock")
    ]
    gateway.configure("".join(servers))
    return project


async def test_each_app_gets_its_own_page_tools_and_data_in_a_session(with_apps: Project) -> None:
    client = await AppSession.connect(with_apps.gateway.http, with_apps.url)
    pages = await pages_of(client)
    assert set(pages.values()) in ({PAGE, MOVED["clock"]}, {PAGE, MOVED["timeapp"]}), "one stays as written"
    for name in ("timeapp", "clock", "timeapp"):
        shown = (await client.call(f"{name}__show-time")).payload
        assert shown == {"tool": "show-time", "server": name, "knowsApps": True}
        assert await text_at(client, pages[name]) == f"page of {name}"
        assert (await client.call("get-time")).payload["server"] == name
        assert await text_at(client, app_server.DATA) == f"data of {name}"


async def pages_of(client: Client, **params: Any) -> dict[str, str]:
    """The addresses of the pages of both servers, once both have listed their tools."""

    async def addresses() -> dict[str, str]:
        tools = (await client.ask(names.TOOLS_LIST, params)).result["tools"]
        return {
            tool["name"].partition("__")[0]: tool["_meta"]["ui"]["resourceUri"]
            for tool in tools
            if tool["name"].endswith("__show-time")
        }

    async def all_addresses() -> dict[str, str]:
        found = await addresses()
        return found if len(found) == 2 else {}

    found: dict[str, str] = await eventually(all_addresses, 10)
    return found


async def text_at(client: Client, uri: str) -> str:
    (entry,) = (await client.ask(names.RESOURCES_READ, {"uri": uri})).result["contents"]
    assert entry["uri"] == uri
    return str(entry["text"])


async def test_a_stateless_client_gets_the_page_that_it_asks_for_and_names_the_server_of_a_tool(
    with_apps: Project,
) -> None:
    client, meta = with_apps.modern, {names.META_CAPABILITIES: APPS}
    for name, uri in (await pages_of(client, _meta=meta)).items():
        assert await text_at(client, uri) == f"page of {name}"
    tools = (await client.ask(names.TOOLS_LIST, {"_meta": meta})).result["tools"]
    assert "clock__get-time" in [tool["name"] for tool in tools]
    error = (await client.call("get-time", meta=meta)).error
    assert error["data"]["details"]["nearest"] == ["clock__get-time", "timeapp__get-time"]
    assert (await client.call("clock__get-time", meta=meta)).payload["server"] == "clock"


async def test_a_client_that_shows_no_apps_gets_the_other_tools_in_either_era(with_apps: Project) -> None:
    await with_apps.until_listed("clock__plain", "timeapp__plain")
    session = await SessionClient.connect(with_apps.gateway.http, with_apps.url)
    for client in (session, with_apps.modern):
        tools = [name for name in await listed(client) if "__" in name]
        assert tools == ["clock__plain", "clock__show-time", "timeapp__plain", "timeapp__show-time"]
        assert (await client.call("clock__show-time")).payload["server"] == "clock"
        assert "error" in (await client.call("clock__get-time")).message


async def test_apps_are_declared_at_the_address_of_a_workspace_that_has_some(with_apps: Project) -> None:
    await with_apps.until_listed("clock__plain", "timeapp__plain")
    discovered = (await with_apps.modern.ask(names.DISCOVER)).result
    assert discovered["capabilities"]["extensions"][apps_extension.EXTENSION] == {}
    client = SessionClient(with_apps.gateway.http, with_apps.url)
    me = {"name": "test", "version": "1"}
    params = {"protocolVersion": client.revision, "capabilities": APPS, "clientInfo": me}
    answer = (await client.ask(names.INITIALIZE, params)).result
    assert answer["capabilities"]["extensions"][apps_extension.EXTENSION] == {}


async def test_a_second_handshake_of_a_client_that_shows_apps_announces_no_change(with_apps: Project) -> None:
    await with_apps.until_listed("clock__plain", "timeapp__plain")
    client = await AppSession.connect(with_apps.gateway.http, with_apps.gateway.manager.address)
    await client.handshake(with_apps.root)
    assert "clock__get-time" in await listed(client)
    again = await client.handshake(with_apps.root)
    assert [message.get("method") for message in again.messages] == [None]


@pytest.mark.parametrize("name", ["timeapp", "clock"])
async def test_a_server_has_an_address_of_its_own_in_both_eras(with_apps: Project, name: str) -> None:
    """There, its app needs nobody to find out whose it is, and reaches no other server."""
    await with_apps.until_listed("clock__plain", "timeapp__plain")
    workspace = (await with_apps.modern.ask(names.DISCOVER)).headers[headers.WORKSPACE_ID]
    url = f"{with_apps.gateway.manager.base}/w/{workspace}/s/{name}/mcp"
    meta = {names.META_CAPABILITIES: APPS}
    stateless = StatelessClient(with_apps.gateway.http, url)
    session = await AppSession.connect(with_apps.gateway.http, url)
    for client, own in ((stateless, {"meta": meta}), (session, {})):
        listed_tools = (await client.ask(names.TOOLS_LIST, {"_meta": meta})).result["tools"]
        assert [tool["name"] for tool in listed_tools] == ["get-time", "plain", "show-time"]
        assert await text_at(client, PAGE) == f"page of {name}"
        assert await text_at(client, app_server.DATA) == f"data of {name}"
        for _ in range(2):  # the second call takes the fast path
            assert (await client.call("get-time", **own)).payload["server"] == name
        for other in ("timeapp__get-time", "clock__get-time", "lm_readFile", "calculator"):
            answer = await client.call(other, {"filePath": "x", "expression": "1"}, **own)
            is_own = other == f"{name}__get-time"
            assert ("error" in answer.message) is not is_own, answer.message
    about = (await stateless.ask(names.DISCOVER)).result
    assert about["_meta"][names.META_SERVER]["name"] == name
    assert (await stateless.ask(names.TOOLS_LIST, url=url.replace(name, "nobody"))).error["data"]["details"][
        "servers"
    ] == ["timeapp", "clock"]


@pytest.mark.parametrize("tool", [names.CALL_TOOL, names.HANDSHAKE])
async def test_the_managers_own_tools_lead_to_no_other_server(with_apps: Project, tool: str) -> None:
    await with_apps.until_listed("clock__plain", "timeapp__plain")
    workspace = (await with_apps.modern.ask(names.DISCOVER)).headers[headers.WORKSPACE_ID]
    client = await AppSession.connect(
        with_apps.gateway.http, f"{with_apps.gateway.manager.base}/w/{workspace}/s/clock/mcp"
    )
    arguments = {"cwd": str(with_apps.root), "name": "timeapp__get-time", "arguments": {}}
    answer = await client.call(tool, arguments)
    assert "get-time of timeapp" not in answer.body.decode()
    assert "error" in (await client.call("timeapp__get-time")).message
    for uri in (PAGE, MOVED["timeapp"]):
        assert "error" in (await client.ask(names.SUBSCRIBE, {"uri": uri})).message, "it would tell of others"


async def test_a_server_whose_entry_says_so_has_no_apps(gateway: Gateway) -> None:
    project = gateway.project("apps-off")
    gateway.configure(
        f'[[mcp.stdio_servers]]\nnamespace = "clock"\ncommand = {command("clock")}\napps = false\n'
    )
    client = await AppSession.connect(gateway.http, project.url)
    tools: dict[str, Any] = {name: tool for name, tool in (await listed(client)).items() if "__" in name}
    assert list(tools) == ["clock__plain", "clock__show-time"]
    assert "_meta" not in tools["clock__show-time"]
    assert (await client.call("clock__show-time")).payload["knowsApps"] is False
