"""The pages in a real browser as they are read: long names, narrow windows, the keyboard, an absent manager."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lm_tools_bridge.recorder.recorder import Limits, Recorder
from manager.client import Control
from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_in_process import RunningManager, make_project
from support.recorded_calls import ended

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: chromium)"),
    pytest.mark.timeout(120),
]
playwright = pytest.importorskip(
    "playwright.async_api", reason="playwright is not installed: scripts/test --browser"
)
playwright.expect.set_options(timeout=20_000)
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
LONG = "a_name_without_any_space_" * 8
SERVER = """
import json, sys
TOOL = {"name": %s, "description": %s, "inputSchema": {"type": "object"}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        listing = message.get("method") == "tools/list"
        result = {"tools": [TOOL]} if listing else {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"}, "content": [{"type": "text", "text": "done"}]}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
"""A server with one tool of a name and a description."""


class LongNamed(SessionClient):
    """A client whose name is a long word."""

    name = LONG


async def of_long_names(manager: RunningManager, tmp_path: Path, http: aiohttp.ClientSession) -> None:
    """A project, a client, a tool, a source and a recorded call whose names are long words."""
    program = tmp_path / "server.py"
    program.write_text(SERVER % (json.dumps(HOSTILE + LONG[:60]), json.dumps(HOSTILE + LONG)))
    config = tmp_path / "manager" / "config"
    config.mkdir(parents=True, exist_ok=True)
    command = json.dumps([sys.executable, "-I", str(program)])
    (config / "workspace.toml").write_text(
        f'[[mcp.stdio_servers]]\nnamespace = "{LONG[:40]}"\ncommand = {command}\n'
        f'[[mcp.stdio_servers]]\nnamespace = "down"\ncommand = ["sh", "-c", "echo \'<b>{LONG}</b>\' >&2; exit 3"]\n'
    )
    project = make_project(tmp_path / LONG[:120])
    client = await LongNamed.connect(http, f"{manager.address}?cwd={project}")
    await client.ask("tools/list", {})
    writer = Recorder(manager.paths.calls_file, Limits(10**8, 1e6, 1e6))
    call = ended(LONG, client=json.dumps({"name": LONG, "version": LONG}).encode(), workspace=f"{LONG}-1")

    writer.observe_call(call)
    writer.flush()


async def test_no_page_is_wider_than_its_window_or_runs_what_servers_say(
    manager: RunningManager, browser: Any, tmp_path: Path
) -> None:
    async with aiohttp.ClientSession() as http:
        await of_long_names(manager, tmp_path, http)
        page = await browser.new_page()
        await page.goto(f"{manager.base}/")
        await playwright.expect(page.locator("#needs")).to_contain_text("down")
        project = await page.locator("#projects a").first.get_attribute("href")
        wide = {}
        for path in ("/", project, "/page/calls", "/page/calls/figures", "/page/call?id=1"):
            await page.goto(manager.base + path)
            assert await page.locator("main img, main b").count() == 0, path
            assert "owned" not in await page.title()
            for width in (360, 800, 1100):
                await page.set_viewport_size({"width": width, "height": 800})
                shown = await page.evaluate("document.documentElement.scrollWidth")
                if shown > width:
                    wide[path, width] = shown
        assert wide == {}


SHOW = "(html) => show({needs: html})"
NEED = '<a href="/page/calls">Calls</a> <button data-action="none" data-id="{}">Retry</button> {}'


async def test_a_part_is_kept_up_to_date_under_the_keyboard_which_stays_where_it_was(
    manager: RunningManager, tab: Any
) -> None:
    await tab.route("**/page/changes", lambda _: None)  # nothing comes of itself
    await tab.goto(f"{manager.base}/")
    await tab.evaluate("sessionStorage.setItem(PROOF, 'any')")
    await tab.evaluate(SHOW, NEED.format("a", "first"))
    await tab.get_by_role("button", name="Retry").focus()
    await tab.evaluate(SHOW, NEED.format("a", "second"))
    await playwright.expect(tab.locator("#needs")).to_contain_text("second")
    await playwright.expect(tab.get_by_role("button", name="Retry")).to_be_focused()
    await tab.evaluate(SHOW, NEED.format("b", "third"))  # another button, which Enter must not press
    await playwright.expect(tab.locator("#needs")).to_be_focused()


async def test_a_page_follows_again_after_the_manager_refused_it(
    manager: RunningManager, browser: Any, tmp_path: Path
) -> None:
    refused: list[str] = []

    async def once(route: Any) -> None:
        if refused:
            await route.continue_()
        else:
            refused.append(route.request.url)
            await route.fulfill(status=503, json={"error": "the manager is stopping"})

    tab = await browser.new_page()
    await tab.route("**/page/changes", once)
    await tab.goto(f"{manager.base}/")
    await playwright.expect(tab.locator("#connection")).to_contain_text("does not answer")
    async with aiohttp.ClientSession() as http:
        await SessionClient.connect(http, f"{manager.address}?cwd={make_project(tmp_path / 'shop')}")
        await playwright.expect(tab.locator("#projects")).to_contain_text("shop")
    await playwright.expect(tab.locator("#connection")).to_have_text("")


async def test_a_page_whose_session_was_ended_says_that_it_can_no_longer_act(
    manager: RunningManager, browser: Any
) -> None:
    tab = await browser.new_page()  # the refusal is an error of its console
    control = Control(manager.paths.control_socket)
    link = await asyncio.to_thread(control.post, "/page/ticket", {})
    await tab.goto(link["url"])
    await playwright.expect(tab.locator("#access")).to_be_hidden()
    await playwright.expect(tab.locator("#browsers button:enabled")).to_have_count(1)
    await asyncio.to_thread(control.post, "/page/revoke", {})
    await playwright.expect(tab.locator("#access")).to_be_visible()
