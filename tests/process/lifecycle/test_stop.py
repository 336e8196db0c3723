"""Tests the stop: calls in flight are answered, children end, exit code 0, in bounded time."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientConnectorError, ClientSession

from lm_tools_bridge.protocol import names
from support.clients.raw_clients import Answer, SessionClient, StatelessClient
from support.processes.managers.manager_home import ManagerHome, ManagerProcess, until
from support.processes.managers.manager_in_process import make_project
from support.servers.scripted.scripted_workspace_server import COMPLETE, ScriptedWorkspaceServer, held, result

SUM = {"expression": "6*7"}


class ManagerWithCall:
    """A manager with one call in flight at a registered server, which answers once `gate` is set."""

    def __init__(self, home: ManagerHome, http: ClientSession, folder: Path) -> None:
        self.home = home
        self.http = http
        self.gate = asyncio.Event()
        self.upstream = ScriptedWorkspaceServer(make_project(folder), home.paths.control_socket)
        self.upstream.tools = [{"name": "work", "inputSchema": {"type": "object"}}]
        self.upstream.answers["work"] = held(self.gate, result(COMPLETE))

    async def call(self, manager: ManagerProcess) -> asyncio.Task[Answer]:
        """Starts the call, and waits until the server has received it."""
        client = await SessionClient.connect(self.http, manager.address)
        await client.handshake(self.upstream.root)
        call = asyncio.create_task(client.call("work"))
        await self.upstream.arrival("work")
        return call


async def own_server(http: ClientSession, manager: ManagerProcess, project: Path) -> SessionClient:
    """A client bound to a workspace server that the manager started."""
    client = await SessionClient.connect(http, manager.address)
    await client.handshake(project)
    return client


@pytest.mark.always
async def test_a_call_in_flight_is_answered_before_the_exit(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """New requests are refused at once, those in flight may complete."""
    manager = await home.start()
    held_one = ManagerWithCall(home, http, tmp_path / "external")
    async with held_one.upstream.serving():
        other = await own_server(http, manager, make_project(tmp_path / "proj"))
        async with other.stream() as stream:
            call = await held_one.call(manager)
            manager.send(signal.SIGTERM)
            ended = await asyncio.wait_for(stream.content.read(), 5)
            assert ended.endswith(b"\n\n")  # properly, not cut off
        assert not call.done()
        with pytest.raises(ClientConnectorError):
            async with ClientSession() as fresh:
                await SessionClient.connect(fresh, manager.address)
        held_one.gate.set()
        answer = await asyncio.wait_for(call, 5)
        assert answer.result["content"] == COMPLETE["content"]
        assert await manager.ended() == 0
    await home.emptied(1)
    assert not home.paths.control_socket.exists()


async def test_calls_that_never_end_get_an_answer_when_the_time_is_over(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """At a registered server, which is not stopped, and at a server of the manager, which hangs and is killed."""
    manager = await home.start(drain_s=0.3)
    held_one = ManagerWithCall(home, http, tmp_path / "external")
    async with held_one.upstream.serving():
        theirs = await held_one.call(manager)
        client = await own_server(http, manager, make_project(tmp_path / "proj"))
        (pid,) = home.servers()
        os.kill(pid, signal.SIGSTOP)
        ours = asyncio.create_task(client.call("calculator", SUM))
        async with asyncio.timeout(5):
            while not next(one for one in await instances(home) if one["pid"] == pid)["inFlight"]:
                await asyncio.sleep(0.01)
        asked_at = time.monotonic()
        manager.send(signal.SIGINT)
        for answer in await asyncio.wait_for(asyncio.gather(theirs, ours), 15):
            assert (answer.refusal["code"], answer.refusal["delivered"]) == (47103, "unknown")
        assert (await held_one.upstream.arrival("work")).gone.is_set()
        assert await manager.ended(10) == 0
        assert 0.3 <= time.monotonic() - asked_at < 12
    assert not home.processes()


async def instances(home: ManagerHome) -> list[dict[str, Any]]:
    """The instances in the manager's status."""
    details: list[dict[str, Any]] = (await home.status())["instanceDetails"]
    return details


async def test_a_second_signal_does_not_wait_for_calls(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """The manager stops at once; the call still gets an answer."""
    manager = await home.start(drain_s=60)
    held_one = ManagerWithCall(home, http, tmp_path / "external")
    async with held_one.upstream.serving():
        call = await held_one.call(manager)
        manager.send(signal.SIGTERM)
        async with asyncio.timeout(5):
            while (await home.status())["state"] != "draining":
                await asyncio.sleep(0.01)
        assert not call.done()
        manager.send(signal.SIGTERM)
        assert (await asyncio.wait_for(call, 5)).refusal["code"] == 47103
        assert await manager.ended(5) == 0


async def test_servers_can_be_left_for_the_next_manager(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """This is how an upgrade stops a manager; a listen stream ends with its result."""
    manager = await home.start()
    client = await own_server(http, manager, make_project(tmp_path / "proj"))
    modern = StatelessClient(http, manager.address)
    body = modern.body(names.LISTEN, {"notifications": {"toolsListChanged": True}}, "l-1")
    async with modern.open(body) as listening:
        await listening.content.readuntil(b"\n\n")
        servers = home.servers()
        await asyncio.to_thread(home.control.post, "/shutdown", {"reason": "upgrade", "keepServers": True})
        assert b'"id":"l-1"' in await asyncio.wait_for(listening.content.read(), 5)
    assert await manager.ended() == 0
    assert home.servers() == servers
    await home.start(http_port=manager.port)
    assert (await client.call("calculator", SUM)).payload == {"value": 42}
    assert home.servers() == servers


async def test_a_stop_in_the_middle_of_a_start_leaves_nothing_behind(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """The waiting handshake gets an answer, and the server is ended."""
    manager = await home.start(drain_s=0)
    client = await SessionClient.connect(http, manager.address)
    waiting = asyncio.create_task(client.handshake(make_project(tmp_path / "proj")))
    await until(home.servers)
    manager.send(signal.SIGTERM)
    answer = await asyncio.wait_for(waiting, 10)
    assert answer.status == 200
    assert answer.result["isError"] is True
    assert await manager.ended() == 0
    assert not home.processes()
