"""Tests that exactly one manager per user serves, and that any other start explains why it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path

import psutil
import pytest
from aiohttp import ClientSession

from manager import exit_codes
from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_home import ManagerHome
from support.processes.managers.manager_in_process import make_project

HANDSHAKEN = {"expression": "6*7"}


async def test_of_ten_simultaneous_starts_exactly_one_serves(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """Nine name the one that serves, and exit with code 0; that one is not affected."""
    starters = [await home.launch() for _ in range(10)]
    ends = {asyncio.create_task(one.process.wait()): one for one in starters}
    done: set[asyncio.Task[int]] = set()
    async with asyncio.timeout(40):
        while len(done) < 9:
            now, _ = await asyncio.wait(set(ends) - done, return_when=asyncio.FIRST_COMPLETED)
            done |= now
    (serving,) = (one for task, one in ends.items() if task not in done)
    await home.ready(serving)
    for task in done:
        said = ends[task].log.read_text()
        assert task.result() == exit_codes.OK == 0, said
        assert "already running" in said
        assert f"pid {serving.pid}" in said
        assert "Traceback" not in said
    client = await SessionClient.connect(http, serving.address)
    await client.handshake(make_project(tmp_path / "proj"))
    assert (await client.call("calculator", HANDSHAKEN)).payload == {"value": 42}
    servers = home.servers()

    late = await home.launch()
    assert await late.ended() == exit_codes.OK
    said = late.log.read_text()
    assert f"pid {serving.pid}" in said
    assert serving.address in said
    assert (await client.call("calculator", HANDSHAKEN)).payload == {"value": 42}
    assert home.servers() == servers
    for task in ends:
        task.cancel()


@pytest.mark.always
async def test_a_port_held_by_another_program_is_explained(home: ManagerHome) -> None:
    """The exit code is 3 and the error names pid and program; nothing is left, so that the next start succeeds."""
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        port = foreign.getsockname()[1]
        refused = await home.launch(http_port=port)
        assert await refused.ended() == exit_codes.HOPELESS == 3
    said = refused.log.read_text()
    assert f"127.0.0.1:{port}" in said
    assert f"pid {os.getpid()}" in said
    assert f"program {psutil.Process().name()}" in said
    assert f"user {psutil.Process().username()}" in said
    assert "Traceback" not in said
    assert not home.paths.control_socket.exists()
    assert not home.paths.state_file.exists()
    assert not home.processes()
    await home.start(http_port=port)


async def test_a_port_used_by_an_outgoing_connection_is_waited_for(home: ManagerHome) -> None:
    """The port has no listener, so it will become free; the manager reports why it waits."""
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        outgoing = stack.enter_context(socket.socket())
        outgoing.bind(("127.0.0.1", 0))
        port = outgoing.getsockname()[1]
        outgoing.connect(target.getsockname())
        accepted = stack.enter_context(target.accept()[0])
        manager = await home.launch(http_port=port)
        async with asyncio.timeout(20):
            while "start.waiting" not in manager.log.read_text():
                await asyncio.sleep(0.02)
        assert "outgoing connection" in manager.log.read_text()
        accepted.close()  # first, so that the side that keeps TIME_WAIT is not on the port
        assert outgoing.recv(1) == b""
    await home.ready(manager)
    assert manager.port == port
