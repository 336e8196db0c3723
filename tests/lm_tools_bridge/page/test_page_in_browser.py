"""The page in a real browser: what it shows, its buttons, and what other pages try against it."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import shutil
import signal
import tempfile
import threading
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import pytest

from lm_tools_bridge.machine.own_token import own_headers
from lm_tools_bridge.page import needs
from lm_tools_bridge.recorder.recorder import Limits, Recorder
from lm_tools_bridge.tokens.token import Token, change_tokens, digest_of, new_token
from manager.admin.control.control_plane import ControlPlane
from manager.call_observer import CallDetails
from manager.client import Control, McpClient
from manager.status_reading import merged_workspaces
from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_in_process import RunningManager, make_project, running_manager
from support.projects.script_tools import write_tool
from support.recorded_calls import ended
from support.servers.mcp_sources.oauth_server import fake_oauth

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: chromium)"),
    pytest.mark.timeout(120),
]
playwright = pytest.importorskip(
    "playwright.async_api", reason="playwright is not installed: scripts/test --browser"
)
playwright.expect.set_options(timeout=20_000)
SETTLE_MS = 800
"""A little more than the time in which a button that has just appeared takes no click."""
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"


async def address(manager: RunningManager) -> str:
    answer = await asyncio.to_thread(Control(manager.paths.control_socket).post, "/page/ticket", {})
    return str(answer["url"])


async def greeted(manager: RunningManager, project: Path, name: str = "tester") -> None:
    """A client that connects from a project, whose server is started."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}}  # fmt: skip
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{manager.address}?cwd={project}", json=message) as response:
            headers = {"Mcp-Session-Id": response.headers["Mcp-Session-Id"]}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        async with session.post(
            f"{manager.address}?cwd={project}", json=listing, headers=headers
        ) as response:
            assert response.status == 200


def menu(tab: Any, subject: str) -> Any:
    """What opens the menu of a row."""
    return tab.locator(f'summary[aria-label="Change {subject}"]')


async def test_the_page_shows_a_project_as_soon_as_it_is_there(
    manager: RunningManager, tab: Any, tmp_path: Path
) -> None:
    await tab.goto(f"{manager.base}/")
    await playwright.expect(tab.locator("#needs")).to_contain_text("All is well")
    await greeted(manager, make_project(tmp_path / "shop"))
    await playwright.expect(tab.locator("#connections .hub")).to_have_text("shop")
    await playwright.expect(tab.locator("#connections .agents")).to_contain_text("tester")
    await playwright.expect(tab.locator("#projects")).to_contain_text("shop")
    await playwright.expect(tab.locator("#clients")).to_contain_text("tester")
    await playwright.expect(tab.locator("#health svg")).to_have_count(3)  # no call, so no percentile
    await playwright.expect(tab.locator("#health")).to_contain_text("Open files")


async def test_buttons_work_only_in_a_page_that_the_verb_opened(
    manager: RunningManager, browser: Any, tab: Any, tmp_path: Path
) -> None:
    servers = {"mcpServers": {"broken": {"command": "false"}}}
    await greeted(manager, make_project(tmp_path / "shop", **{".mcp.json": json.dumps(servers)}))
    await tab.goto(await address(manager))
    await playwright.expect(tab.locator("#access")).to_be_hidden()
    assert tab.url == f"{manager.base}/", "the ticket is gone from the address"
    stranger = await (await browser.new_context()).new_page()
    await stranger.goto(f"{manager.base}/")
    await playwright.expect(stranger.locator("#access")).to_be_visible()
    assert await stranger.evaluate(ACT) == 403
    assert await tab.evaluate(ACT) == 200, "it may act"


async def test_a_tool_is_disabled_and_enabled_on_the_page_of_its_project(
    manager: RunningManager, tab: Any, tmp_path: Path
) -> None:
    write_tool(tmp_path / "manager" / "config" / "tools", "greet")
    servers = {"mcpServers": {HOSTILE: {"command": "false"}}}
    await greeted(manager, make_project(tmp_path / "shop", **{".mcp.json": json.dumps(servers)}))
    await tab.goto(await address(manager))
    await tab.locator("#projects a").click()
    await playwright.expect(tab.locator("#trust")).to_contain_text("onerror")
    await menu(tab, "greet").press("Enter")
    await tab.get_by_role("button", name="Disable greet").press("Enter")
    await playwright.expect(tab.locator("#connection")).to_contain_text("greet is disabled")
    await playwright.expect(menu(tab, "greet")).to_be_focused()
    await menu(tab, "greet").press("Enter")
    await tab.get_by_role("button", name="Enable greet").press("Enter")
    await playwright.expect(tab.locator("#connection")).to_contain_text("greet is enabled")
    await playwright.expect(menu(tab, "greet")).to_be_focused()
    assert await tab.locator("img").count() == 0


async def test_a_menu_closes_with_escape_beside_it_and_as_another_opens(
    manager: RunningManager, tab: Any, tmp_path: Path
) -> None:
    await greeted(manager, make_project(tmp_path / "shop"))
    await tab.goto(await address(manager))
    await tab.locator("#projects a").click()
    opened = tab.locator("details.menu[open]")
    await menu(tab, "calculator").press("Enter")
    await playwright.expect(opened).to_have_count(1)
    await menu(tab, "datetime").press("Enter")
    await playwright.expect(opened.locator("summary")).to_have_attribute("aria-label", "Change datetime")
    await tab.get_by_role("button", name="Deny datetime").focus()
    await tab.keyboard.press("Escape")
    await playwright.expect(opened).to_have_count(0)
    await playwright.expect(menu(tab, "datetime")).to_be_focused()
    await menu(tab, "datetime").click()
    await tab.locator("h2", has_text="Tools").click()
    await playwright.expect(opened).to_have_count(0)


async def test_the_line_of_an_agent_moves_as_it_calls_and_not_for_those_who_want_no_motion(
    manager: RunningManager, tab: Any, tmp_path: Path
) -> None:
    project = make_project(tmp_path / "shop")
    async with aiohttp.ClientSession() as http:
        client = await SessionClient.connect(http, f"{manager.address}?cwd={project}")
        await tab.emulate_media(reduced_motion="reduce")
        await tab.goto(await address(manager))
        await client.call("calculator", {"expression": "1+1"})
        line = tab.locator("#connections path.flow").first
        await playwright.expect(line).to_have_css("animation-name", "none")
        await client.call("calculator", {"expression": "1+1"})
        await tab.emulate_media(reduced_motion="no-preference")
        await playwright.expect(line).to_have_css("animation-name", "flow")


async def names_listed(client: SessionClient) -> set[str]:
    """The tools that a client gets listed."""
    answer = (await client.ask("tools/list", {})).message
    return {tool["name"] for tool in answer["result"]["tools"]}


async def test_the_visibility_buttons_change_what_a_client_gets_listed(
    manager: RunningManager, tab: Any, tmp_path: Path
) -> None:
    write_tool(tmp_path / "manager" / "config" / "tools", "greet")
    project = make_project(tmp_path / "shop")
    async with aiohttp.ClientSession() as http:
        client = await SessionClient.connect(http, f"{manager.address}?cwd={project}")
        assert "greet" in await names_listed(client)
        await tab.goto(await address(manager))
        await tab.locator("#projects a").click()
        for label, said, is_listed in [
            ("On demand greet", "greet is not listed", False),
            ("List always greet", "greet is always listed", True),
            ("On demand greet", "greet is not listed", False),
            ("As its source says greet", "greet is listed as its source says", True),
            ("On demand tools of script_user", "What script_user offers is not listed", False),
            ("List tools of script_user", "What script_user offers is listed as usual", True),
        ]:
            await menu(tab, "tools of script_user" if "script_user" in label else "greet").click()
            await tab.get_by_role("button", name=label, exact=True).click()
            await playwright.expect(tab.locator("#connection")).to_contain_text(said)
            assert ("greet" in await names_listed(client)) is is_listed, label
        await playwright.expect(tab.locator("#tools")).to_contain_text("listed (yours, for its source)")


async def test_the_policy_buttons_change_whether_a_call_runs(
    manager: RunningManager, tab: Any, tmp_path: Path
) -> None:
    write_tool(tmp_path / "manager" / "config" / "tools", "greet", "print('hello')\n")
    project = make_project(tmp_path / "shop")
    async with aiohttp.ClientSession() as http:
        client = await SessionClient.connect(http, f"{manager.address}?cwd={project}")
        assert "hello" in json.dumps((await client.call("greet")).message)
        await tab.goto(await address(manager))
        await tab.locator("#projects a").click()
        for label, said, result in [
            ("Ask greet", "greet asks a person", "approval_required"),
            ("Deny greet", "greet never runs", "approval_denied"),
            ("Allow greet", "greet runs without asking", "hello"),
        ]:
            await menu(tab, "greet").click()
            await tab.get_by_role("button", name=label, exact=True).click()
            await playwright.expect(tab.locator("#connection")).to_contain_text(said)
            assert result in json.dumps((await client.call("greet")).message), label


async def server_pid(manager: RunningManager, http: aiohttp.ClientSession) -> int:
    """The process of the only project's server."""
    async with http.get(f"{manager.base}/mcp/status") as response:
        (row,) = merged_workspaces(await response.json())
    return int(row["pid"])


async def is_running(manager: RunningManager, http: aiohttp.ClientSession) -> bool:
    """Whether a server of the only project runs."""
    async with http.get(f"{manager.base}/mcp/status") as response:
        return bool((await response.json())["instanceDetails"])


async def test_a_server_that_does_not_answer_is_started_again_with_its_button(
    tab: Any, tmp_path: Path
) -> None:
    quick = {"health_interval_s": 0.3, "health_timeout_s": 0.3, "hung_restart_s": 600.0}
    async with (
        running_manager(tmp_path / "manager", **quick) as manager,
        aiohttp.ClientSession() as http,
    ):
        write_tool(tmp_path / "manager" / "config" / "tools", "greet")
        project = make_project(tmp_path / "shop")
        await greeted_with(manager, project)
        before = await server_pid(manager, http)
        await tab.goto(await address(manager))
        os.kill(before, signal.SIGSTOP)
        await tab.get_by_role("button", name="Start again shop").click()
        await playwright.expect(tab.locator("#connection")).to_contain_text("The server runs")
        assert await server_pid(manager, http) != before
        client = await SessionClient.connect(http, f"{manager.address}?cwd={project}")
        assert "greet" in await names_listed(client)
        await playwright.expect(tab.locator("#needs")).to_contain_text("All is well")


async def test_a_server_that_ended_is_started_with_its_button(tab: Any, tmp_path: Path) -> None:
    async with running_manager(tmp_path / "manager", workspace_idle_s=0.5) as manager:
        write_tool(tmp_path / "manager" / "config" / "tools", "greet")
        await greeted_with(manager, make_project(tmp_path / "shop"))
        await tab.goto(await address(manager))
        await tab.locator("#projects a").click()
        page = tab.url
        await tab.goto("about:blank")  # a page that shows the server's tools keeps it running
        async with aiohttp.ClientSession() as http:
            while await is_running(manager, http):
                await asyncio.sleep(0.1)
        await tab.goto(page)
        await playwright.expect(tab.locator("#project")).to_contain_text("Its server does not run")
        await tab.get_by_role("button", name="Start", exact=True).click()
        await playwright.expect(tab.locator("#connection")).to_contain_text("The server runs")
        await playwright.expect(tab.locator("#tools")).to_contain_text("greet")


async def test_a_call_that_moved_under_the_pointer_is_not_answered_at_once(
    manager: RunningManager, tab: Any
) -> None:
    sent: list[Any] = []

    async def answered(route: Any) -> None:
        sent.append(route.request.post_data_json["id"])
        await route.fulfill(json={"ok": True, "text": "It was approved."})

    await tab.clock.install()
    await tab.route("**/page/action", answered)
    await tab.goto(await address(manager))
    await playwright.expect(tab.locator("#access")).to_be_hidden()
    replaced = (
        """(id) => show({needs: `<button data-action="answer-approval" data-id="${id}">Approve</button>`})"""
    )
    await tab.evaluate(replaced, "a")
    await tab.clock.run_for(700)
    await tab.evaluate(replaced, "b")
    await tab.evaluate("document.querySelector('#needs button').click()")
    await playwright.expect(tab.locator("#connection")).to_contain_text("changed just now")
    await tab.clock.run_for(700)
    await tab.evaluate("document.querySelector('#needs button').click()")
    await playwright.expect(tab.locator("#connection")).to_contain_text("It was approved")
    assert sent == ["b"]


async def test_the_page_of_a_project_is_read_narrow_without_scripts_and_a_session(
    manager: RunningManager, browser: Any, tmp_path: Path
) -> None:
    await greeted(manager, make_project(tmp_path / ("a-project-with-a-long-name-" * 3)))
    context = await browser.new_context(viewport={"width": 360, "height": 640}, java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{manager.base}/")
    await page.locator("#projects a").click()
    await playwright.expect(page.locator("#tools")).to_contain_text("lm_findFiles")
    assert await page.locator("#tools button:enabled").count() == 0
    box = await page.locator("main").bounding_box()
    assert box["x"] + box["width"] <= 360


async def test_a_call_is_stopped_and_a_source_tried_again_with_their_buttons(
    manager: RunningManager, tab: Any, tmp_path: Path
) -> None:
    config = tmp_path / "manager" / "config"
    write_tool(config / "tools", "sleep", "import time\ntime.sleep(60)\n")
    (config / "workspace.toml").write_text(
        '[[mcp.stdio_servers]]\nnamespace = "broken"\ncommand = ["false"]\n'
    )
    project = make_project(tmp_path / "shop")
    await tab.goto(await address(manager))
    async with aiohttp.ClientSession() as http:
        client = await SessionClient.connect(http, f"{manager.address}?cwd={project}")
        call = asyncio.create_task(client.call("sleep"))
        await tab.get_by_role("button", name="Stop").first.click()
        await playwright.expect(tab.locator("#connection")).to_contain_text("sleep was stopped")
        assert "the user stopped sleep" in json.dumps((await call).message)
    await tab.locator("#projects a").click()
    await tab.get_by_role("button", name="Retry stdio:broken").click()
    await playwright.expect(tab.locator("#connection")).to_contain_text("stdio:broken is started again")


async def asking(tmp_path: Path) -> Path:
    """A project with a tool that asks before each call."""
    config = tmp_path / "manager" / "config"
    write_tool(config / "tools", "deploy", "print('deployed')\n", "requires_approval = true\n")
    return make_project(tmp_path / "shop")


@pytest.mark.parametrize(
    ("label", "said", "result"),
    [
        ("Approve once", "deploy was approved, once.", "deployed"),
        ("Always allow this tool, in every project", "runs without asking from now on", "deployed"),
        ("Deny", "deploy was denied.", "User denied execution of deploy"),
    ],
)
async def test_each_answer_to_a_call_that_waits_has_a_button(
    tab: Any, tmp_path: Path, label: str, said: str, result: str
) -> None:
    async with running_manager(tmp_path / "manager", approval_wait_s=60.0) as manager:
        project = await asking(tmp_path)
        await tab.goto(await address(manager))
        async with aiohttp.ClientSession() as http:
            client = await SessionClient.connect(http, f"{manager.address}?cwd={project}")
            call = asyncio.create_task(client.call("deploy"))
            need = tab.locator("#needs li")
            await playwright.expect(need).to_contain_text("deploy waits for your approval")
            await tab.wait_for_timeout(SETTLE_MS)
            await need.get_by_role("button", name=label).click()
            await playwright.expect(tab.locator("#connection")).to_contain_text(said)
            assert result in json.dumps((await call).message)
            await playwright.expect(tab.locator("#needs")).to_contain_text("All is well")
            if label.startswith("Always"):
                assert "deployed" in json.dumps((await client.call("deploy")).message)


async def test_a_person_signs_in_to_a_server_that_the_page_names(
    manager: RunningManager, tab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    async with fake_oauth() as oauth:
        entry = f'[[mcp.remote_servers]]\nnamespace = "far"\nurl = "{oauth.url}"\nauth = "oauth"\n'
        config = tmp_path / "manager" / "config"
        config.mkdir(parents=True, exist_ok=True)
        (config / "workspace.toml").write_text(entry)
        await greeted(manager, make_project(tmp_path / "shop"))
        await tab.goto(await address(manager))
        await tab.get_by_role("button", name="Sign in remote:far").click()
        link = tab.get_by_role("link", name="Open the page to sign in")
        await playwright.expect(link).to_be_focused(timeout=70_000)  # the command loads the SDK
        url = await link.get_attribute("href")
        assert url.startswith(f"{oauth.origin}/authorize?")
        target = oauth.authorize(dict(parse_qsl(urlsplit(url).query)))
        async with aiohttp.ClientSession() as session, session.get(target) as response:
            assert response.status == 200
        await playwright.expect(tab.locator("#needs")).to_contain_text("All is well")


async def test_what_waits_for_trust_is_one_click_away_with_its_difference(
    manager: RunningManager, tab: Any, tmp_path: Path
) -> None:
    servers = {"mcpServers": {"db": {"command": "false"}}}
    await greeted(manager, make_project(tmp_path / "shop", **{".mcp.json": json.dumps(servers)}))
    await tab.goto(await address(manager))
    await playwright.expect(tab.locator("#needs code")).to_have_text(f"lmtb trust {tmp_path / 'shop'}")
    await tab.get_by_role("link", name="See what changed").click()
    await playwright.expect(tab.locator("#trust")).to_contain_text('+written.command = "false"')
    assert tab.url.endswith("#trust")


async def test_a_browser_is_ended_on_the_page_and_can_no_longer_act(
    manager: RunningManager, browser: Any, tab: Any
) -> None:
    await tab.goto(await address(manager))
    other = await (await browser.new_context()).new_page()
    await other.goto(await address(manager))
    await playwright.expect(other.locator("#access")).to_be_hidden()
    await playwright.expect(tab.locator("#browsers tbody tr")).to_have_count(2)
    await tab.get_by_role("button", name="End browser 2").click()
    await playwright.expect(tab.locator("#connection")).to_contain_text("Browser 2 can no longer act")
    await playwright.expect(tab.locator("#browsers tbody tr")).to_have_count(1)
    assert await other.evaluate(ACT) == 403
    assert await tab.evaluate(ACT) == 200


async def test_the_manager_is_restarted_with_its_button(
    manager: RunningManager, tab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    async def restart(_: ControlPlane, reason: str | None, *, keep_servers: bool) -> str:
        asked.append(keep_servers)
        return "9.9"

    monkeypatch.setattr(ControlPlane, "restart", restart)  # a test cannot be replaced by a new program
    monkeypatch.setattr(needs, "_REPLACED", frozenset({"current", "unknown"}))
    await tab.goto(await address(manager))
    await tab.get_by_role("button", name="Restart").click()
    await playwright.expect(tab.locator("#connection")).to_contain_text("The manager restarts as 9.9")
    assert asked == [True]


ACT = """async () => (await fetch("/page/action", {
    method: "POST",
    headers: {"Content-Type": "application/json", "X-Page-Proof": sessionStorage.getItem("lmtb-page-proof") ?? ""},
    body: JSON.stringify({action: "none"}),
})).status"""


async def test_hostile_names_are_text(manager: RunningManager, tab: Any, tmp_path: Path) -> None:
    folder = make_project(tmp_path / HOSTILE.replace("/", ""))
    await tab.goto(f"{manager.base}/")
    await greeted(manager, folder, name=HOSTILE)
    await playwright.expect(tab.locator("#clients")).to_contain_text("onerror")
    assert await tab.title() == "LM Tools Bridge"
    assert await tab.locator("img").count() == 0


async def test_the_page_fits_a_narrow_screen_and_can_be_read_without_scripts(
    manager: RunningManager, browser: Any, tmp_path: Path
) -> None:
    await greeted(manager, make_project(tmp_path / ("a-project-with-a-long-name-" * 3)))
    context = await browser.new_context(viewport={"width": 360, "height": 640}, java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{manager.base}/")
    await playwright.expect(page.locator("#projects")).to_contain_text("a-project")
    box = await page.locator("main").bounding_box()
    assert box["x"] + box["width"] <= 360


async def test_the_pages_are_usable_by_keyboard_and_screen_reader(
    manager: RunningManager, tab: Any, tmp_path: Path
) -> None:
    axe = pytest.importorskip("axe_playwright_python.async_playwright", reason="axe is not installed")
    await tab.goto(await address(manager))
    # the policy of the page forbids what axe does; it is a program of the test, not of the page
    await tab.route("**/*", _without_policy)
    await tab.reload()
    found = await axe.Axe().run(tab)
    assert found.response["violations"] == []
    await greeted(manager, make_project(tmp_path / "shop"))
    await tab.locator("#projects a").click()
    found = await axe.Axe().run(tab)
    assert found.response["violations"] == []


def fill(manager: RunningManager) -> None:
    """Three recorded calls of a tool with a hostile name, one of which failed, with contents."""
    limits = Limits(10**8, 1e6, 1e6)
    writer = Recorder(manager.paths.calls_file, limits)
    for outcome in ("ok", "ok", "error"):
        told = CallDetails(result=bytearray(json.dumps({"result": {"text": HOSTILE}}).encode()))
        client = json.dumps({"name": HOSTILE, "version": HOSTILE}).encode()
        arguments = json.dumps({"x": HOSTILE}).encode()
        writer.observe_call(
            ended(
                HOSTILE, client=client, workspace=HOSTILE, outcome=outcome, arguments=arguments, details=told
            )
        )
    writer.flush()


async def test_recorded_calls_are_filtered_and_opened_without_scripts(
    manager: RunningManager, browser: Any
) -> None:
    fill(manager)
    context = await browser.new_context(viewport={"width": 360, "height": 640}, java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{manager.base}/")
    await page.get_by_role("link", name="Recorded calls", exact=True).click()
    await playwright.expect(page.locator("#recorded tbody tr")).to_have_count(3)
    await page.get_by_label("Only errors").check()
    await page.get_by_role("button", name="Show").click()
    await playwright.expect(page.locator("#recorded tbody tr")).to_have_count(1)
    box = await page.locator("main").bounding_box()
    assert box["x"] + box["width"] <= 360
    await page.locator("#recorded tbody a").first.click()
    await playwright.expect(page.locator("#replay")).to_contain_text("lmtb replay 3")
    assert await page.get_by_role("button", name="Copy").count() == 0, "there is no script that copies"


async def test_hostile_names_of_recorded_calls_are_text_and_the_pages_are_accessible(
    manager: RunningManager, browser: Any, tab: Any
) -> None:
    axe = pytest.importorskip("axe_playwright_python.async_playwright", reason="axe is not installed")
    fill(manager)
    await tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await tab.goto(f"{manager.base}/page/calls")
    await playwright.expect(tab.locator("#recorded")).to_contain_text("onerror")
    await tab.locator("#recorded tbody a").first.click()
    await playwright.expect(tab.locator("#contents")).to_contain_text("onerror")
    await tab.locator("#replay button").first.click()
    await playwright.expect(tab.locator("#connection")).to_contain_text("copied")
    assert await tab.evaluate("navigator.clipboard.readText()") == "lmtb replay 3"
    for path in ("/page/calls", "/page/calls/figures", "/page/call?id=3"):
        await tab.goto(manager.base + path)
        assert await tab.locator("img").count() == 0
        assert "owned" not in await tab.title()
        await tab.route("**/*", _without_policy)
        await tab.reload()
        found = await axe.Axe().run(tab)
        assert found.response["violations"] == []
        await tab.unroute("**/*")


async def _without_policy(route: Any) -> None:
    if route.request.resource_type != "document":
        await route.continue_()
        return
    response = await route.fetch()
    headers = {key: value for key, value in response.headers.items() if key != "content-security-policy"}
    await route.fulfill(response=response, headers=headers)


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """An empty page on another port of this host."""

    class Empty(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>elsewhere</title>")

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


REACHES = """async (elsewhere) => {
    const style = document.createElement("style");
    style.textContent = `input[name] { background: url(${elsewhere}?leak) } body { outline: 7px solid }`;
    const link = Object.assign(document.createElement("link"), {rel: "stylesheet", href: elsewhere + "?sheet"});
    const image = Object.assign(document.createElement("img"), {src: elsewhere + "?image"});
    const script = document.createElement("script");
    script.textContent = "document.title = 'owned'";
    const failed = [link, image].map((one) => new Promise((resolve) => { one.onerror = () => resolve("refused"); one.onload = () => resolve("read"); }));
    document.body.append(style, link, image, script);
    document.body.setAttribute("style", "outline: 7px solid");
    const found = await Promise.all(failed);
    return [...found, getComputedStyle(document.body).outlineWidth === "7px" ? "styled" : "refused", document.title];
}"""


async def test_markup_that_got_in_could_neither_run_nor_style_nor_load_from_elsewhere(
    manager: RunningManager, browser: Any, elsewhere: str
) -> None:
    page = await browser.new_page()
    for path in ("/", "/page/calls"):
        await page.goto(manager.base + path)
        title = await page.title()
        assert await page.evaluate(REACHES, elsewhere) == ["refused", "refused", "refused", title]


async def test_other_names_of_this_address_lead_nowhere(manager: RunningManager) -> None:
    """A name that is bound to this machine meanwhile (DNS rebinding), and 0.0.0.0, which browsers connect to."""
    rules = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    async with playwright.async_playwright() as driver:
        launched = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", rules])
        page = await launched.new_page()
        for host in ("evil.example", "0.0.0.0"):
            try:
                answer = await page.goto(f"http://{host}:{manager.port}/page/calls")
            except playwright.Error:  # newer browsers do not even connect
                continue
            assert answer is not None
            assert answer.status == 421
        await launched.close()


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="becoming another user needs root and setpriv (Debian: util-linux)",
)
async def test_the_browser_of_another_user_sees_nothing(manager: RunningManager) -> None:
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o777)
        browse = [str(CHROMIUM), "--headless", "--no-sandbox", f"--user-data-dir={home}/data", "--dump-dom"]
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", f"HOME={home}"]
        process = await asyncio.create_subprocess_exec(
            *other, *browse, f"{manager.base}/page/calls", cwd="/", stdout=PIPE, stderr=DEVNULL
        )
        async with asyncio.timeout(60):
            shown, _ = await process.communicate()
    assert b"this server serves another user" in shown
    assert b"Recorded calls" not in shown


async def test_where_tokens_are_required_the_page_is_read_with_one_as_a_password(
    browser: Any, tmp_path: Path
) -> None:
    secret = new_token()
    async with running_manager(tmp_path / "manager", require_token=True) as manager:
        made = Token("browser", digest_of(secret), ("read", "act"), 0)
        change_tokens(manager.paths.tokens_file, lambda _: [made])
        await asyncio.to_thread(Control(manager.paths.control_socket).post, "/tokens/reload", {})
        stranger = await browser.new_page()
        with pytest.raises(playwright.Error, match="ERR_INVALID_AUTH_CREDENTIALS"):
            await stranger.goto(f"{manager.base}/page/calls")
        context = await browser.new_context(http_credentials={"username": "any", "password": secret})
        page = await context.new_page()
        await page.goto(await address(manager))
        await playwright.expect(page.locator("#access")).to_be_hidden()
        await playwright.expect(page.locator("#connection")).to_have_text("")
        await greeted_with(manager, make_project(tmp_path / "shop"))
        await playwright.expect(page.locator("#projects")).to_contain_text("shop")
        assert await page.evaluate(ACT) == 200


async def greeted_with(manager: RunningManager, project: Path) -> None:
    """One of our own programs connects from a project."""
    own = own_headers(manager.paths.runtime_dir)
    client = McpClient(manager.address, str(project), "1", own_headers=own)
    await asyncio.to_thread(client.request, "tools/list", {})


TRIES = """async (base) => {
    const json = {"Content-Type": "application/json"};
    const tries = {
        act: () => fetch(base + "/page/action", {method: "POST", headers: json, body: "{}", credentials: "include"}),
        simple: () => fetch(base + "/page/action", {method: "POST", mode: "no-cors", body: "{}", credentials: "include"}),
        read: () => fetch(base + "/mcp/status"),
        changes: () => fetch(base + "/page/changes"),
    };
    const found = {};
    for (const [name, attempt] of Object.entries(tries)) {
        try { const response = await attempt(); found[name] = response.type === "opaque" ? "opaque" : "read"; }
        catch { found[name] = "refused"; }
    }
    found.frame = await new Promise((resolve) => {
        const frame = document.createElement("iframe");
        frame.onload = () => { try { resolve(frame.contentDocument ? "blank" : "refused"); } catch { resolve("refused"); } };
        frame.src = base + "/";
        document.body.append(frame);
    });
    found.script = await new Promise((resolve) => {
        const script = document.createElement("script");
        script.onload = () => resolve("read");
        script.onerror = () => resolve("refused");
        script.src = base + "/page/page.js";
        document.body.append(script);
    });
    return found;
}"""


async def test_pages_of_other_ports_reach_nothing_even_with_the_cookie(
    manager: RunningManager, browser: Any, elsewhere: str
) -> None:
    context = await browser.new_context()
    mine, theirs = await context.new_page(), await context.new_page()
    await mine.goto(await address(manager))
    await playwright.expect(mine.locator("#access")).to_be_hidden()
    await theirs.goto(elsewhere)
    found = await theirs.evaluate(TRIES, manager.base)
    assert found == {
        "act": "refused",
        "simple": "refused",  # Cross-Origin-Resource-Policy
        "read": "refused",
        "changes": "refused",
        "frame": "refused",
        "script": "refused",
    }
    assert await mine.evaluate(ACT) == 200, "the session of the page itself goes on"
