"""The page of a running manager: who sees it, who may act, and what is refused."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lm_tools_bridge.page.live import MOST_PAGES
from support.clients.page_client import control, event, opened, posted, ticket
from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_in_process import RunningManager, make_project
from support.projects.script_tools import write_tool

BROWSER = {"Accept": "text/html,application/xhtml+xml"}


@pytest.mark.parametrize("path", ["/", "/mcp/status", "/mcp/status/", "/?format=html"])
async def test_browsers_get_a_page_with_a_strict_policy(
    manager: RunningManager, http: aiohttp.ClientSession, path: str
) -> None:
    async with http.get(manager.base + path, headers=BROWSER) as response:
        text = await response.text()
        assert response.content_type == "text/html"
        assert text.startswith("<!doctype html>")
        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none';")
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize("path", ["/", "/mcp/status", "/?format=json"])
async def test_programs_get_json_as_before(
    manager: RunningManager, http: aiohttp.ClientSession, path: str
) -> None:
    headers = BROWSER if "format" in path else {}
    async with http.get(manager.base + path, headers=headers) as response:
        assert (await response.json())["ok"] is True


async def test_what_the_page_loads_comes_from_the_manager(
    manager: RunningManager, http: aiohttp.ClientSession
) -> None:
    for path, kind in (("/page/page.css", "text/css"), ("/page/page.js", "text/javascript")):
        async with http.get(manager.base + path) as response:
            assert (response.status, response.content_type) == (200, kind)
            assert "http://" not in await response.text()


@pytest.mark.processes
async def test_an_open_page_gets_everything_and_then_what_changes(
    manager: RunningManager, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async with http.get(f"{manager.base}/page/changes") as stream:
        first = await event(stream)
        top = ["connections", "savings", "needs"]
        assert list(first) == [*top, "projects", "calls", "clients", "manager", "health", "browsers"]
        assert "first request from its folder" in first["projects"]
        project = make_project(tmp_path / "shop")
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "tester", "version": "1"},
            },
        }
        async with http.post(f"{manager.address}?cwd={project}", json=call) as response:
            assert response.status == 200
        changed: dict[str, Any] = {}
        while "tester" not in changed.get("clients", ""):
            changed = await event(stream)


async def test_closed_pages_cost_nothing_and_too_many_are_refused(
    manager: RunningManager, http: aiohttp.ClientSession
) -> None:
    def samplers() -> int:
        return sum(1 for task in asyncio.all_tasks() if task.get_name() == "page.sampler")

    streams = [await http.get(f"{manager.base}/page/changes") for _ in range(MOST_PAGES)]
    for stream in streams:
        await event(stream)
    assert samplers() == 1
    async with http.get(f"{manager.base}/page/changes") as refused:
        assert refused.status == 503
    for stream in streams:
        stream.close()
    async with asyncio.timeout(20):
        while samplers():
            await asyncio.sleep(0.01)


async def test_a_page_without_a_session_may_not_act(
    manager: RunningManager, http: aiohttp.ClientSession
) -> None:
    code, answer = await posted(http, f"{manager.base}/page/action", {"action": "restart-manager"})
    assert code == 403
    assert "lmtb ui" in answer["text"]


@pytest.mark.processes
async def test_a_session_may_act(
    manager: RunningManager, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    proof = await opened(manager, http)
    message = {"action": "retry-source", "root": str(make_project(tmp_path / "shop")), "source": "stdio:none"}
    code, answer = await posted(http, f"{manager.base}/page/action", message, {"X-Page-Proof": proof})
    assert code != 403, answer


@pytest.mark.processes
async def test_a_running_call_can_be_stopped(
    manager: RunningManager, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    project = make_project(tmp_path / "shop")
    write_tool(tmp_path / "manager" / "config" / "tools", "sleep", "import time\ntime.sleep(60)\n")
    proof = await opened(manager, http)
    client = await SessionClient.connect(http, f"{manager.address}?cwd={project}")
    call = asyncio.create_task(client.call("sleep"))
    async with http.get(f"{manager.base}/page/changes") as stream:
        shown = ""
        while 'data-action="stop-call"' not in shown:
            shown = (await event(stream)).get("calls", "")
    number = re.search(r'data-number="(\d+)"', shown)
    assert number is not None
    message = {"action": "stop-call", "root": str(project), "number": number[1], "tool": "sleep"}
    code, answer = await posted(http, f"{manager.base}/page/action", message, {"X-Page-Proof": proof})
    assert (code, answer) == (200, {"ok": True, "text": "sleep was stopped."})
    result = json.dumps((await call).message)
    assert "the user stopped sleep" in result
    assert "call_stopped" in result
    code, answer = await posted(http, f"{manager.base}/page/action", message, {"X-Page-Proof": proof})
    assert (answer["ok"], answer["text"]) == (False, "sleep has ended already.")


async def test_the_cookie_alone_may_not_act(manager: RunningManager, http: aiohttp.ClientSession) -> None:
    await opened(manager, http)
    code, _ = await posted(http, f"{manager.base}/page/action", {"action": "restart-manager"})
    assert code == 403


async def test_the_cookie_is_hidden_from_scripts_and_other_sites(
    manager: RunningManager, http: aiohttp.ClientSession
) -> None:
    url = f"{manager.base}/page/session"
    async with http.post(url, json={"ticket": await ticket(manager)}) as response:
        cookie = response.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


async def test_a_used_ticket_is_refused_with_what_to_do(
    manager: RunningManager, http: aiohttp.ClientSession
) -> None:
    secret = await ticket(manager)
    for expected in (200, 403):
        code, answer = await posted(http, f"{manager.base}/page/session", {"ticket": secret})
        assert code == expected
    assert "lmtb ui" in answer["text"]


async def test_revoked_sessions_may_not_act(manager: RunningManager, http: aiohttp.ClientSession) -> None:
    proof = await opened(manager, http)
    assert (await control(manager, "/page/revoke"))["revoked"] == 1
    headers = {"X-Page-Proof": proof}
    code, _ = await posted(http, f"{manager.base}/page/action", {"action": "restart-manager"}, headers)
    assert code == 403


@pytest.mark.parametrize("path", ["/page/session", "/page/action"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "same-site"},
        {"Referer": "http://127.0.0.1:1/"},
    ],
)
async def test_other_pages_can_neither_open_sessions_nor_act(
    manager: RunningManager, http: aiohttp.ClientSession, path: str, headers: dict[str, str]
) -> None:
    proof = await opened(manager, http)
    code, _ = await posted(
        http, manager.base + path, {"action": "restart-manager"}, {**headers, "X-Page-Proof": proof}
    )
    assert code == 403


async def test_forms_cannot_act(manager: RunningManager, http: aiohttp.ClientSession) -> None:
    await opened(manager, http)
    async with http.post(f"{manager.base}/page/action", data={"action": "restart-manager"}) as response:
        assert response.status == 415


@pytest.mark.parametrize("path", ["/page/session", "/page/action"])
async def test_no_state_changes_by_get(
    manager: RunningManager, http: aiohttp.ClientSession, path: str
) -> None:
    async with http.get(manager.base + path) as response:
        assert response.status == 405


async def test_rubbish_is_refused(manager: RunningManager, http: aiohttp.ClientSession) -> None:
    kind = {"Content-Type": "application/json"}
    for body in (b"", b"[]", b"\xff", b"{" * 5000):
        async with http.post(f"{manager.base}/page/session", data=body, headers=kind) as response:
            assert response.status == 400
    async with http.post(f"{manager.base}/page/session", data=b"x" * 20_000, headers=kind) as response:
        assert response.status == 413


async def test_an_open_page_does_not_delay_the_stop(
    manager: RunningManager, http: aiohttp.ClientSession
) -> None:
    async with http.get(f"{manager.base}/page/changes") as stream:
        await event(stream)
        manager.daemon.ask_to_stop("test")
        async with asyncio.timeout(10):
            while await stream.content.readany():
                pass
