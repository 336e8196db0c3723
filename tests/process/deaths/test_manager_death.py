"""Tests a restart after SIGKILL of the manager: sessions go on, and no call is repeated."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession

from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_home import BOTH_WAYS, ManagerHome, until
from support.processes.managers.manager_in_process import make_project
from support.servers.scripted.scripted_workspace_server import ScriptedWorkspaceServer

SUM = {"expression": "6*7"}


async def keep_calling(client: SessionClient, count: Iterator[int], tool: str, answered: set[str]) -> None:
    """Calls until the manager has ended, and records the numbers of the answered calls."""
    with contextlib.suppress(ClientError, OSError):
        while True:
            number = f"{next(count)}"
            answer = await client.call(tool, {"expression": number})
            assert not answer.result.get("isError"), answer.result
            answered.add(number)


@BOTH_WAYS
async def test_sessions_bindings_and_servers_survive_and_no_call_is_repeated(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """The manager is killed under load and started again."""
    manager = await home.start()
    projects = [make_project(tmp_path / name) for name in ("one", "two")]
    clients = [await SessionClient.connect(http, manager.address) for _ in range(4)]
    external = ScriptedWorkspaceServer(make_project(tmp_path / "external"), home.paths.control_socket)
    external.tools = [{"name": "work", "inputSchema": {"type": "object"}}]
    async with external.serving():
        ids = []
        for client, folder in zip(clients, [*projects, projects[0], external.root], strict=True):
            ids.append((await client.handshake(folder)).payload["workspace"])
        pids = {one: pid for one, pid in (await home.server_pids()).items() if one != ids[3]}
        count = itertools.count()
        tools = ["calculator", "calculator", "calculator", "work"]
        answered: list[set[str]] = [set() for _ in clients]
        load = [
            asyncio.create_task(keep_calling(one, count, tool, numbers))
            for one, tool, numbers in zip(clients, tools, answered, strict=True)
        ]
        await until(lambda: all(answered) and next(count) > 100)
        await manager.killed()
        await asyncio.gather(*load)
        assert home.paths.control_socket.exists()
        assert home.servers() == set(pids.values())

        again = await home.start(http_port=manager.port, cwd=tmp_path)
        before = len(external.called())
        await external.register()
        assert {one: pid for one, pid in (await home.server_pids()).items() if one != ids[3]} == pids
        for client, workspace in zip(clients[:3], ids, strict=False):
            answer = await client.call("calculator", SUM)
            assert answer.payload == {"value": 42}
            assert answer.headers["X-Workspace-Id"] == workspace
            assert answer.headers["X-Workspace-Source"] == "session"
        last = await clients[3].call("work", {"expression": "last"})
        assert last.headers["X-Workspace-Id"] == ids[3]

        arrived = [one.params["arguments"]["expression"] for one in external.called("work")]
        assert len(arrived) == len(set(arrived)) == before + 1
        assert answered[3] <= set(arrived)
        assert len(arrived) - 1 - len(answered[3]) <= 1  # at most the one in flight at that moment is lost
        assert home.servers() == set(pids.values())
        again.send(signal.SIGTERM)
        assert await again.ended() == 0
    await home.emptied(5)


@BOTH_WAYS
async def test_servers_end_themselves_when_no_manager_comes_back(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """After the grace period no process is left of a manager that was killed and not started again."""
    manager = await home.start(grace_s=0.5)
    for name in ("one", "two"):
        client = await SessionClient.connect(http, manager.address)
        await client.handshake(make_project(tmp_path / name))
    assert len(home.servers()) == 2
    await manager.killed()
    await home.emptied(8)


async def test_stored_instances_that_have_died_are_restarted(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """The servers died with their manager; an unrelated process that got one of their pids is not ended."""
    manager = await home.start()
    client = await SessionClient.connect(http, manager.address)
    workspace = (await client.handshake(make_project(tmp_path / "one"))).payload["workspace"]
    pid = (await home.server_pids())[workspace]
    await manager.killed()
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not home.servers())
    with contextlib.closing(sqlite3.connect(home.paths.state_file)) as database:
        database.execute("UPDATE instances SET pid=?", (os.getpid(),))
        database.commit()
    again = await home.start(http_port=manager.port)
    assert (await client.call("calculator", SUM)).payload == {"value": 42}
    assert (await home.server_pids())[workspace] != pid
    assert again.process.returncode is None


@pytest.mark.always
async def test_leftover_socket_and_lock_file_do_not_block_a_start(home: ManagerHome, tmp_path: Path) -> None:
    """A socket without listener and a lock file with invalid content are replaced."""
    runtime = home.paths.runtime_dir
    runtime.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(home.paths.control_socket))
    home.paths.lock_file.write_text(f'{{"pid": {os.getpid()}, "address": "http://127.0.0.1:1/mcp"}}')
    manager = await home.start(cwd=tmp_path)
    assert (await asyncio.to_thread(home.control.get, "/health"))["ok"] is True
    assert f'"pid": {manager.pid}' in home.paths.lock_file.read_text()
    assert home.paths.control_socket.is_absolute()
    assert home.paths.control_socket.stat().st_mode & 0o777 == 0o600
    assert home.paths.control_socket.parent.stat().st_mode & 0o777 == 0o700
