"""Tests that all clients of a workspace share one process per stdio server."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiohttp import ClientSession

from lm_tools_bridge.protocol import headers, names
from support.clients.raw_clients import Client, SessionClient
from support.processes.managers.manager_home import ManagerHome, until
from support.processes.managers.manager_in_process import make_project
from support.processes.managers.stdio_families import (
    FAMILY_SIZE,
    children,
    configure,
    entry,
    legacy,
    marks,
    modern,
    number,
)

SERVERS = [f"s{n}" for n in range(6)]


async def eight_clients(http: ClientSession, address: str, project: Path) -> list[Client]:
    """Four clients of each era on one project."""
    sessions = await asyncio.gather(*(legacy(http, address, project) for _ in range(4)))
    return [*sessions, *(modern(http, address, project) for _ in range(4))]


async def used(clients: list[Client], servers: list[str]) -> dict[str, set[int]]:
    """Every client lists and calls every server at the same time; returns the pids that answered, by server."""
    lists = await asyncio.gather(*(one.ask(names.TOOLS_LIST) for one in clients))
    for listed in lists:
        assert {f"{one}__pid" for one in servers} <= {tool["name"] for tool in listed.result["tools"]}
    answers = {one: asyncio.gather(*(number(client, f"{one}__pid") for client in clients)) for one in servers}
    return {one: set(await pids) for one, pids in answers.items()}


async def stopped(home: ManagerHome) -> None:
    """Stops the manager by the command line, and asserts that no process is left."""
    assert (await home.lmtb("stop")).code == 0
    assert not home.processes()


async def test_eight_clients_share_the_processes_of_six_servers(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """The process table shows it, also after all clients were replaced."""
    configure(home, *map(entry, SERVERS))
    manager = await home.start()
    project = make_project(tmp_path / "proj")
    clients = await eight_clients(http, manager.address, project)
    answered = await used(clients, SERVERS)
    assert all(len(pids) == 1 for pids in answered.values())
    pids = {pid for some in answered.values() for pid in some}
    (server,) = (await home.server_pids()).values()
    assert len(pids) == 6
    assert children(home, server) == pids
    table = marks(home)
    assert len(table) == 6 * FAMILY_SIZE
    assert len(set(table.values())) == 6

    for client in clients:
        if isinstance(client, SessionClient):
            leaving = {headers.SESSION: client.session or ""}
            async with http.delete(manager.address, headers=leaving) as ended:
                assert ended.status in {200, 204}
    async with ClientSession() as fresh:
        assert await used(await eight_clients(fresh, manager.address, project), SERVERS) == answered
    assert marks(home) == table

    other = await legacy(http, manager.address, make_project(tmp_path / "other"))
    elsewhere = await number(other, "s0__pid")
    assert elsewhere not in pids
    assert children(home, server) == pids  # another workspace has processes of its own
    await stopped(home)


async def test_a_server_for_each_session_or_call_has_as_many_processes_as_these(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """Stateless clients have no session and share one process; a process of a call ends with the call."""
    configure(home, entry("mine", sharing="session"), entry("once", sharing="call"), entry("ours"))
    manager = await home.start()
    clients = await eight_clients(http, manager.address, make_project(tmp_path / "proj"))
    answered = await used(clients, ["mine", "once", "ours"])
    assert {name: len(pids) for name, pids in answered.items()} == {"mine": 5, "once": 8, "ours": 1}
    (server,) = (await home.server_pids()).values()
    lasting = answered["mine"] | answered["ours"]
    await until(lambda: children(home, server) == lasting, 10, lambda: marks(home))
    assert len(marks(home)) == 6 * FAMILY_SIZE

    gate = tmp_path / "gate"
    held = [asyncio.create_task(number(one, "once__hold", {"until": str(gate)})) for one in clients]
    await until(lambda: len(marks(home)) == (6 + 8) * FAMILY_SIZE, 10, lambda: marks(home))
    gate.touch()
    assert len(set(await asyncio.gather(*held))) == 8
    await until(lambda: children(home, server) == lasting, 10, lambda: marks(home))
    assert (await used(clients, ["mine", "ours"])) == {name: answered[name] for name in ("mine", "ours")}
    await stopped(home)
