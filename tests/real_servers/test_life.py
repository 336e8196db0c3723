"""Real servers under a manager that is a process of its own: how many there are, and that none is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession

from lm_tools_bridge.protocol import names
from support.clients.raw_clients import Client
from support.processes.managers.manager_home import ManagerHome, manager_home, until
from support.processes.managers.manager_in_process import make_project
from support.processes.managers.stdio_families import configure, legacy, marks, modern
from support.processes.timeouts import within
from support.servers.mcp_sources.real_servers import Entry, Installed


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ManagerHome]:
    async with manager_home(tmp_path / "user") as made:
        yield made


@pytest.fixture
async def http() -> AsyncIterator[ClientSession]:
    async with ClientSession() as session:
        yield session


def of_user(namespace: str, server: Entry) -> str:
    """A server as an entry of the user's own configuration, which needs no trust."""
    command = json.dumps([server["command"], *server["args"]])
    return f'[[mcp.stdio_servers]]\nnamespace = "{namespace}"\ncommand = {command}\n'


async def echoed(client: Client, tool: str, message: str) -> str:
    answer = await client.call(tool, {"message": message})
    return str(answer.result["content"][0]["text"])


async def test_eight_clients_share_one_process_and_nothing_is_left(
    home: ManagerHome, http: ClientSession, servers: Installed, tmp_path: Path
) -> None:
    """The process table says so."""
    configure(home, of_user("all", servers.node("everything")))
    manager = await home.start()
    project = make_project(tmp_path / "proj")
    sessions = await asyncio.gather(*(legacy(http, manager.address, project) for _ in range(4)))
    clients: list[Client] = [*sessions, *(modern(http, manager.address, project) for _ in range(4))]
    for listed in await asyncio.gather(*(one.ask(names.TOOLS_LIST) for one in clients)):
        assert "all__echo" in {tool["name"] for tool in listed.result["tools"]}
    calls = [(one, f"{number}.{turn}") for number, one in enumerate(clients) for turn in range(5)]
    answers = await asyncio.gather(*(echoed(client, "all__echo", text) for client, text in calls))
    assert answers == [f"Echo: {text}" for _, text in calls]
    assert len(home.processes("mcp-server-everything")) == 1
    assert (await home.lmtb("stop")).code == 0
    assert not home.processes()


async def test_what_npx_started_ends_with_a_workspace_server_that_was_killed(
    home: ManagerHome, http: ClientSession, servers: Installed, tmp_path: Path
) -> None:
    """Npm, a shell and node; and the next call starts all of it again."""
    configure(home, of_user("all", servers.npx("everything")))
    manager = await home.start()
    client = modern(http, manager.address, make_project(tmp_path / "proj"))

    async def answered(message: str) -> bool:
        listed = await client.ask(names.TOOLS_LIST)
        known = "all__echo" in {tool["name"] for tool in listed.result["tools"]}
        return known and await echoed(client, "all__echo", message) == f"Echo: {message}"

    async with asyncio.timeout(20):
        while not await answered("one"):
            await asyncio.sleep(0.05)
    before = set(marks(home))
    assert len(before) >= 2
    (server,) = (await home.server_pids()).values()
    os.kill(server, signal.SIGKILL)
    await until(lambda: not before & set(marks(home)), within(2), home.processes)
    async with asyncio.timeout(20):
        while not await answered("two"):
            await asyncio.sleep(0.05)
    assert (await home.lmtb("stop")).code == 0
    assert not home.processes()
