"""Tests of `lmtb restart`: another version takes over, and clients notice nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import mcp
import psutil
import pytest
from aiohttp import ClientSession

from lm_tools_bridge.protocol import names
from manager import __version__
from support.clients.raw_clients import SessionClient, StatelessClient
from support.processes.installations.installed_copy import InstalledCopy
from support.processes.managers.manager_home import ManagerHome, until
from support.processes.managers.manager_in_process import make_project

SUM = {"expression": "6*7"}
NEWER = "99.1"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> InstalledCopy:
    return InstalledCopy(tmp_path_factory.mktemp("installed"), __version__)


@pytest.fixture
async def user(home: ManagerHome, installed: InstalledCopy) -> AsyncIterator[ManagerHome]:
    """A user of the installed copy, with the version of these sources."""
    if not (installed.site / "manager").exists() or __version__ not in version_of(installed):
        installed.install(__version__)
    home.python = str(installed.python)
    home.paths.config_dir.mkdir(exist_ok=True)
    home.paths.config_file.write_text("http_port = 0\n")
    yield home


def version_of(installed: InstalledCopy) -> str:
    return (installed.site / "manager" / "__init__.py").read_text()


async def test_newer_version_takes_over_from_a_manager_in_the_background(
    user: ManagerHome, installed: InstalledCopy, http: ClientSession, tmp_path: Path
) -> None:
    assert (await user.lmtb("up")).code == 0
    before = await user.status()
    project = make_project(tmp_path / "proj")
    async with AsyncExitStack() as stack:
        legacy = await stack.enter_async_context(mcp.Client(before["address"], mode="legacy"))
        modern = await stack.enter_async_context(mcp.Client(f"{before['address']}?cwd={project}"))
        await legacy.call_tool(names.HANDSHAKE, {"cwd": str(project)})
        assert (await modern.call_tool("calculator", SUM)).structured_content == {"value": 42}
        servers = await user.server_pids()

        installed.install(NEWER)
        shown = (await user.lmtb("status")).out
        assert (
            f"the manager runs {__version__}, this program is {NEWER}; to change over: lmtb restart" in shown
        )
        hint = (await user.lmtb("workspaces")).err
        assert f"this program is {NEWER}; to change over: lmtb restart" in hint
        done = await user.lmtb("restart")
        assert done.code == 0, done.err
        assert f"restarted: {__version__} → {NEWER}, at {before['address']} (pid {before['pid']}" in done.out
        assert (
            "1 server of another version: replaced when idle; at once with: lmtb restart --servers"
            in done.out
        )
        assert (await user.status())["version"] == NEWER
        assert await user.server_pids() == servers
        assert (await legacy.call_tool("calculator", SUM)).structured_content == {"value": 42}
        assert (await modern.call_tool("calculator", SUM)).structured_content == {"value": 42}

        again = json.loads((await user.lmtb("restart", "--servers", "--json")).out)
        assert (again["from"], again["version"], again["outdatedServers"]) == (NEWER, NEWER, 0)
        assert (await legacy.call_tool("calculator", SUM)).structured_content == {"value": 42}
        replaced = await user.server_pids()
        assert replaced.keys() == servers.keys()
        assert replaced != servers
        assert not {pid for pid in servers.values() if psutil.pid_exists(pid)}, "no zombie is left either"


async def test_manager_in_the_foreground_restarts_with_its_own_options(
    user: ManagerHome, installed: InstalledCopy, http: ClientSession, tmp_path: Path
) -> None:
    """Clients that connect meanwhile wait; none is refused."""
    manager = await user.start(health_interval_s=7)
    client = StatelessClient(http, manager.address)
    refused: list[object] = []
    goes_on = True

    async def keep_connecting() -> None:
        while goes_on:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", manager.port)
                writer.close()
            except OSError as error:
                refused.append(error)
            await asyncio.sleep(0.005)

    installed.install(NEWER)
    load = asyncio.create_task(keep_connecting())
    done = await user.lmtb("restart")
    goes_on = False
    await load
    assert done.code == 0, done.err
    assert refused == []
    assert (await user.status())["version"] == NEWER
    assert "--health-interval-s 7" in " ".join(psutil.Process(manager.pid).cmdline())
    assert (await client.ask("tools/list")).status == 200


async def test_program_that_cannot_be_loaded_does_not_take_over(
    user: ManagerHome, installed: InstalledCopy
) -> None:
    assert (await user.lmtb("up")).code == 0
    installed.install(NEWER)
    (installed.site / "manager" / "daemon.py").write_text("import missing_library\n")
    done = await user.lmtb("restart")
    assert done.code == 1
    assert (
        "the installed program cannot be started: ModuleNotFoundError: No module named 'missing_library'"
        in done.err
    )
    assert "the manager goes on as before" in done.err
    assert (await user.status())["version"] == __version__


async def test_another_installation_takes_over_in_the_background_only(
    user: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    assert (await user.lmtb("up")).code == 0
    before = await user.status()
    client = await SessionClient.connect(http, before["address"])
    await client.handshake(make_project(tmp_path / "proj"))
    servers = await user.server_pids()
    user.python = None
    port = before["address"].removesuffix("/mcp").rpartition(":")[2]
    user.paths.config_file.write_text(f"http_port = {port}\n")
    done = await user.lmtb("restart")
    assert done.code == 0, done.err
    after = await user.status()
    assert (after["pid"] != before["pid"], after["address"]) == (True, before["address"])
    assert await user.server_pids() == servers
    assert (await client.call("calculator", SUM)).payload == {"value": 42}
    assert (await user.lmtb("stop")).code == 0
    await user.emptied(10)


async def test_manager_of_another_installation_in_a_terminal_is_left_alone(
    user: ManagerHome, installed: InstalledCopy
) -> None:
    manager = await user.start()
    user.python = None
    done = await user.lmtb("restart")
    assert done.code == 1
    assert f"the manager (pid {manager.pid}) runs from another installation" in done.err
    assert "stop it with Ctrl-C where it was started, then: lmtb up" in done.err
    assert (await user.status())["pid"] == manager.pid
    installed.install(NEWER)
    user.python = str(installed.python)
    up = await user.lmtb("up")
    assert f"this program is version {NEWER}; to change over: lmtb restart" in up.out
    refused = await user.launch()
    assert await refused.ended() == 0
    assert "lmtb restart" in refused.log.read_text()


async def test_without_a_manager_restart_starts_one(user: ManagerHome) -> None:
    done = await user.lmtb("restart")
    assert done.code == 0, done.err
    assert f"no manager was running; started version {__version__}" in done.out


async def test_manager_whose_program_is_removed_still_answers_everything(
    user: ManagerHome, installed: InstalledCopy, http: ClientSession, tmp_path: Path
) -> None:
    """Also what is asked for the first time; only new servers cannot be started, with the reason."""
    manager = await user.start(log_level="debug")
    base = manager.address.removesuffix("/mcp")
    client = await SessionClient.connect(http, manager.address)
    await client.handshake(make_project(tmp_path / "one"))
    await client.call("calculator", SUM)
    await until(lambda: "late_modules.loaded" in manager.log.read_text(), 10, manager.log.read_text)
    installed.remove()
    for path in ("/mcp/status", "/metrics", "/mcp/log", "/mcp/health", "/"):
        async with http.get(f"{base}{path}") as answer:
            assert answer.status == 200, (path, await answer.text())
    async with http.post(f"{base}/allocate", json={"sessionId": "s", "preferredPort": 12000}) as answer:
        assert answer.status == 200, await answer.text()
    assert (await client.call("calculator", SUM)).payload == {"value": 42}
    second = await SessionClient.connect(http, manager.address)
    assert (await second.handshake(tmp_path / "one")).payload["ok"] is True
    refused = (await second.handshake(make_project(tmp_path / "two"))).result
    assert f"the installed program is gone from {installed.site}" in json.dumps(refused)
    assert "install it again, then run lmtb restart" in json.dumps(refused)
    status = await user.status()
    assert (status["state"], status["installation"]["state"]) == ("degraded", "gone")
    assert "Traceback" not in manager.log.read_text()
    installed.install(NEWER)
    assert (await user.lmtb("restart")).code == 0
    assert (await second.handshake(tmp_path / "two")).payload["ok"] is True
