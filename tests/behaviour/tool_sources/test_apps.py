"""MCP Apps through the manager: servers of both eras behind it, clients of both eras in front of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol import apps_extension, names
from support.clients.raw_clients import Client, SessionClient
from support.projects.gateway import Gateway, Project, listed
from support.servers.mcp_sources import app_server

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]
APPS = {"extensions": apps_extension.CLIENT_EXTENSIONS}
PAGE, MOVED = app_server.PAGE, "ui://clock+time/page.html"


class AppSession(SessionClient):
    """A client with a session that shows apps."""

    capabilities = APPS


def command(*arguments: str) -> str:
    return json.dumps([sys.executable, str(Path(app_server.__file__)), *arguments])


@pytest.fixture(params=["session", "stateless"])
def with_apps(gateway: Gateway, request: pytest.FixtureRequest) -> Project:
    """A project with two servers whose tools and pages have the same names."""
    project = gateway.project(
        f"apps-{request.param}-{request.node.name[:40]}".replace("[", "-").replace("]", "")
    )
    stateless = ["--stateless"] if request.param == "stateless" else []
    servers = [
        f'[[mcp.stdio_servers]]\nnamespace = "{name}"\ncommand = {command(name, *stateless)}\n'
        for name in ("timeapp", "clock")
    ]
    gateway.configure("".join(servers))
    return project


async def test_each_app_gets_its_own_page_tools_and_data_in_a_session(with_apps: Project) -> None:
    client = await AppSession.connect(with_apps.gateway.http, with_apps.url)
    tools = await listed(client)
    pages = {name: tool["_meta"]["ui"].get("resourceUri") for name, tool in tools.items() if "_meta" in tool}
    assert pages == {
        "timeapp__show-time": PAGE,
        "timeapp__get-time": None,
        "clock__show-time": MOVED,
        "clock__get-time": None,
    }
    for name, uri in (("timeapp", PAGE), ("clock", MOVED), ("timeapp", PAGE)):
        shown = (await client.call(f"{name}__show-time")).payload
        assert shown == {"tool": "show-time", "server": name, "knowsApps": True}
        assert await text_at(client, uri) == f"page of {name}"
        assert (await client.call("get-time")).payload["server"] == name
        assert await text_at(client, app_server.DATA) == f"data of {name}"


async def text_at(client: Client, uri: str) -> str:
    (entry,) = (await client.ask(names.RESOURCES_READ, {"uri": uri})).result["contents"]
    assert entry["uri"] == uri
    return str(entry["text"])


async def test_a_stateless_client_gets_the_page_that_it_asks_for_and_names_the_server_of_a_tool(
    with_apps: Project,
) -> None:
    await with_apps.until_listed("clock__plain", "timeapp__plain")
    client, meta = with_apps.modern, {names.META_CAPABILITIES: APPS}
    tools = (await client.ask(names.TOOLS_LIST, {"_meta": meta})).result["tools"]
    assert "clock__get-time" in [tool["name"] for tool in tools]
    assert await text_at(client, MOVED) == "page of clock"
    assert await text_at(client, PAGE) == "page of timeapp"
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
