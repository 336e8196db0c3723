"""Tests that no child process is left, however a workspace server or its manager ends."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import ClientSession

from lm_tools_bridge.protocol import names
from support.processes.managers.manager_home import BOTH_WAYS, ManagerHome, until
from support.processes.managers.manager_in_process import make_project
from support.processes.managers.stdio_families import (
    FAMILY_SIZE,
    children,
    configure,
    entry,
    legacy,
    living,
    marks,
    modern,
    number,
    stubborn_family,
    user_tool,
)
from support.processes.timeouts import GUARD_S, within

pytestmark = pytest.mark.timeout(5 * GUARD_S)

HOUR_S = 3600.0
RESTLESS = (
    'sh -c "sleep 1000" & setsid sh -c "sleep 1001 & sleep 1002" & echo begun > "$PWD/begun"; sleep 1000\n'
)
"""A script in the midst of its work, with relatives near and far."""
BRIEF = "sleep 0.001 & echo $$\n"
"""A script that leaves something behind at its end."""


async def only_server(home: ManagerHome) -> int:
    """The process id of the only workspace server."""
    (pid,) = (await home.server_pids()).values()
    return pid


def gone(home: ManagerHome, pids: Collection[int]) -> bool:
    """Whether none of these processes runs any more."""
    return not {one.pid for one in living(home)} & set(pids)


def script_copies(home: ManagerHome) -> list[Path]:
    """The copies of scripts that were written to run them."""
    return [file for file in home.folder.rglob("run.sh") if not file.is_relative_to(home.folder / "config")]


async def inspected(home: ManagerHome, project: Path) -> dict[str, dict[str, Any]]:
    """The status of the sources of a workspace server by id."""
    answer = await asyncio.to_thread(home.control.post, "/inspect", {"cwd": str(project)})
    return {one["id"]: one for one in answer["sources"]}


@BOTH_WAYS
async def test_children_of_a_killed_workspace_server_are_ended_at_once(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """Calls and scripts are running; their callers get an error, and the next server answers."""
    configure(home, entry("one"), entry("each", sharing="call"))
    user_tool(home, "restless", RESTLESS)
    user_tool(home, "brief", BRIEF)
    manager = await home.start(health_interval_s=HOUR_S)
    project = make_project(tmp_path / "proj")
    client = await legacy(http, manager.address, project)
    first = await number(client, "one__pid")
    server = await only_server(home)
    gate = {"until": str(tmp_path / "never")}
    calls = [asyncio.create_task(client.call(f"{one}__hold", gate)) for one in ("one", "each", "each")]
    calls.append(asyncio.create_task(client.call("restless")))
    await until(lambda: len(marks(home)) >= 3 * FAMILY_SIZE + 4 and (project / "begun").exists(), GUARD_S)
    before = marks(home)
    assert script_copies(home)
    identity = (await asyncio.to_thread(home.control.get, "/list"))["instances"][0]["sessionId"]
    assert all(mark.startswith(f"{identity}.") for mark in before.values())

    os.kill(server, signal.SIGKILL)
    for answer in await asyncio.wait_for(asyncio.gather(*calls), GUARD_S):
        assert (answer.refusal["code"], answer.refusal["delivered"]) == (47103, "unknown")
    await until(lambda: gone(home, before), GUARD_S, lambda: marks(home))
    assert await number(client, "one__pid") not in before
    assert await only_server(home) != server
    assert first in before
    await number(client, "brief")
    assert (await home.lmtb("stop")).code == 0
    assert not home.processes()
    assert not script_copies(home)  # of the one that was cut off, either: the next one swept them away


@BOTH_WAYS
async def test_children_are_kept_while_a_manager_may_come_back(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """A new manager adopts the server with its children, and can end all of them."""
    configure(home, entry("one"))
    manager = await home.start(grace_s=20)
    client = await legacy(http, manager.address, make_project(tmp_path / "proj"))
    pid = await number(client, "one__pid")
    before = marks(home)
    gate = tmp_path / "gate"
    held = asyncio.create_task(client.call("one__hold", {"until": str(gate)}))
    await manager.killed()
    assert isinstance((await asyncio.gather(held, return_exceptions=True))[0], OSError)
    gate.touch()
    again = await home.start(http_port=manager.port)
    assert await number(client, "one__pid") == pid
    assert marks(home) == before
    again.send(signal.SIGTERM)
    assert await again.ended(GUARD_S) == 0
    assert not home.processes()


@BOTH_WAYS
async def test_a_killed_manager_leaves_nothing_whether_its_servers_live_or_not(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """No process is left, whether or not the workspace servers outlive the manager.

    A server that lives ends its children after the grace period; the children of a server that was killed are ended
    by the next manager within ten seconds of its start. That manager is started by one of these children, such as an
    agent that is itself an MCP server; all others are ended.
    """
    configure(home, entry("one"))
    manager = await home.start(grace_s=1)
    projects = [make_project(tmp_path / name) for name in ("killed", "spared")]
    clients = [await legacy(http, manager.address, project) for project in projects]
    for client in clients:
        await number(client, "one__pid")
    before = marks(home)
    assert len(before) == 2 * FAMILY_SIZE
    pids = await home.server_pids()
    killed = next(pid for workspace, pid in pids.items() if workspace.startswith("killed"))
    await manager.killed()
    os.kill(killed, signal.SIGKILL)
    await until(lambda: set(home.processes()) & set(pids.values()) == set(), GUARD_S, home.processes)
    # who has a parent ends with it
    await until(lambda: len(marks(home)) == FAMILY_SIZE - 1, GUARD_S, lambda: marks(home))
    left = marks(home)
    assert len(set(left.values())) == 1

    inherited = f"{names.CHILD_VARIABLE}={next(iter(left.values()))}"
    await home.start(http_port=manager.port, prefix=["env", inherited])
    await until(lambda: gone(home, before), within(10), lambda: marks(home))
    for client in clients:
        assert await number(client, "one__pid") not in before


async def test_children_that_ignore_requests_to_end_are_killed_within_8_s(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """They are ended by a server that is stopped as idle, and by one that gets SIGTERM."""
    configure(home, entry("one", stubborn_family()))
    manager = await home.start(prefix=["env", "WATCHDOG_USEC=400000"], workspace_idle_s=1)
    idle = modern(http, manager.address, make_project(tmp_path / "idle"))
    busy = await legacy(http, manager.address, make_project(tmp_path / "busy"))
    async with busy.stream():
        await asyncio.gather(number(idle, "one__pid"), number(busy, "one__pid"))
        pids = await home.server_pids()
        before = set(marks(home)) | set(pids.values())
        assert len(before) == 2 + 2 * FAMILY_SIZE
        began = time.monotonic()
        os.kill(next(pid for one, pid in pids.items() if one.startswith("busy")), signal.SIGTERM)
        await until(lambda: gone(home, before), within(8), home.processes)
        assert time.monotonic() - began > 5  # they were asked first


@pytest.mark.parametrize("count", [100])
async def test_many_short_scripts_leave_no_zombie(
    home: ManagerHome, http: ClientSession, tmp_path: Path, count: int
) -> None:
    """The server's status agrees with the process table."""
    configure(home, entry("one"), entry("two"))
    user_tool(home, "brief", BRIEF)
    manager = await home.start()
    project = make_project(tmp_path / "proj")
    client = await legacy(http, manager.address, project)
    ours = {await number(client, f"{name}__pid") for name in ("one", "two")}
    server = await only_server(home)
    seen: set[int] = set()
    for _ in range(count // 10):
        seen |= set(await asyncio.gather(*(number(client, "brief") for _ in range(10))))
    assert len(seen) > count * 0.9  # numbers may come round
    # zombies would stay among them
    await until(lambda: {one.pid for one in psutil.Process(server).children()} == ours, GUARD_S)
    assert children(home, server) == ours
    await until(lambda: len(marks(home)) == 2 * FAMILY_SIZE, GUARD_S, lambda: marks(home))
    sources = await inspected(home, project)
    assert {sources[f"stdio:{name}"]["pid"] for name in ("one", "two")} == ours
    assert sources["script_user"]["running"] == 0
