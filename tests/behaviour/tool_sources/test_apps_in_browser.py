"""Apps of two servers in the official host, in Chromium: each shows its own page, and reaches its own server."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from lm_tools_bridge.protocol import apps_extension, names
from support.clients import app_host
from support.clients.app_host import AppPages
from support.clients.raw_clients import SessionClient
from support.projects.gateway import Gateway, listed
from support.servers.mcp_sources import app_server

pytestmark = pytest.mark.asyncio(loop_scope="module")
APPS = {"extensions": apps_extension.CLIENT_EXTENSIONS}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class AppSession(SessionClient):
    """The MCP client of the host."""

    capabilities = APPS


@pytest.fixture(scope="module")
def app_pages(tmp_path_factory: pytest.TempPathFactory) -> AppPages:
    return app_host.build(tmp_path_factory.mktemp("app-host"))


@pytest_asyncio.fixture(loop_scope="module")
async def host(gateway: Gateway, app_pages: AppPages) -> AsyncIterator[tuple[SessionClient, Any]]:
    """A session of a project with two servers whose names and addresses are equal, and the host's page."""
    from playwright.async_api import async_playwright

    project = gateway.project("apps-in-browser")
    program = [sys.executable, str(Path(app_server.__file__))]
    gateway.configure(
        "".join(
            f'[[mcp.stdio_servers]]\nnamespace = "{name}"\n'
            f"command = {json.dumps([*program, name, '--page', str(app_pages.app)])}\n"
            for name in ("timeapp", "clock")
        )
    )
    client = await AppSession.connect(gateway.http, project.url)

    async def ask_server(method: str, params: dict[str, Any]) -> dict[str, Any]:
        answer = (await client.ask(method, params)).message
        if "error" in answer:
            raise ValueError(answer["error"]["message"])
        result: dict[str, Any] = answer["result"]
        return result

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page()
        await page.expose_function("askServer", ask_server)
        await page.goto(app_pages.host.as_uri())
        yield client, page
        await browser.close()


async def open_app(client: SessionClient, page: Any, tool: str) -> str:
    """What an app shows that is opened as a host does it: the tool is called, then its page is read and shown."""
    uri = (await listed(client))[tool]["_meta"]["ui"]["resourceUri"]
    assert not (await client.call(tool)).result.get("isError")
    (content,) = (await client.ask(names.RESOURCES_READ, {"uri": uri})).result["contents"]
    assert (content["uri"], content["mimeType"]) == (uri, apps_extension.PAGE_TYPE)
    await page.evaluate("html => window.openApp(html)", content["text"])
    answers = page.frames[-1].locator("#answers:not(:empty)")
    return str(await answers.text_content(timeout=20_000))


async def test_two_apps_with_equal_names_and_addresses_get_what_is_theirs(
    host: tuple[SessionClient, Any],
) -> None:
    client, page = host
    for name in ("timeapp", "clock", "timeapp"):
        shown = await open_app(client, page, f"{name}__show-time")
        assert shown == f"app of {name}: get-time of {name}, data of {name}"
