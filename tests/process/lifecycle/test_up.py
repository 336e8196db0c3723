"""Tests of `lmtb up`: a manager in the background, found by everybody, started once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from aiohttp import ClientSession

from manager import __version__
from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_home import ManagerHome
from support.processes.managers.manager_in_process import make_project


@pytest.fixture
def any_port(home: ManagerHome) -> ManagerHome:
    """A home whose configuration lets the system choose the port."""
    configure(home, "http_port = 0")
    return home


def configure(home: ManagerHome, line: str) -> None:
    home.paths.config_dir.mkdir(exist_ok=True)
    home.paths.config_file.write_text(f"{line}\n")


async def test_up_starts_a_manager_that_outlives_it(any_port: ManagerHome) -> None:
    done = await any_port.lmtb("up")
    assert done.code == 0, done.err
    status = await any_port.status()
    address, pid = status["address"], status["pid"]
    assert f"the manager is ready at {address} (pid {pid}, version {__version__})" in done.out
    assert "Stop: lmtb stop" in done.out
    assert f"Log: {any_port.paths.logs_dir / 'manager.log'}" in done.out
    assert os.getsid(pid) == pid
    assert psutil.Process(pid).terminal() is None
    assert psutil.Process(pid).cwd() == "/"
    assert "ready" in (any_port.paths.logs_dir / "manager.log").read_text()
    assert (await any_port.lmtb("stop")).code == 0
    await any_port.emptied(10)


def at_terminal(home: ManagerHome, answer: bytes) -> str:
    """What `lmtb up` prints at a terminal, where a person answers its question if it asks one."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-I", "-m", "manager", "up"]
    environ = {**home.environ, "COLUMNS": "200"}
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environ) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(ours, 4096):
                shown += part
                if shown.endswith(b"): ") or b"[y/N]" in part:
                    os.write(ours, answer)
        os.close(ours)
        assert process.wait(20) == 0, shown.decode()
    return shown.decode()


async def test_the_first_time_up_offers_to_connect_what_is_installed_and_asks_once(
    any_port: ManagerHome,
) -> None:
    entries = Path(any_port.environ["HOME"]) / ".claude.json"
    entries.write_text('{"mcpServers": {"mine": {"command": "mine"}}}')
    shown = await asyncio.to_thread(at_terminal, any_port, b"n\n")
    assert "Found here: Claude Code. This would connect them:" in shown
    assert 'your own "mine": move to' in shown and "Claude Code: left as it is" in shown
    assert entries.read_text() == '{"mcpServers": {"mine": {"command": "mine"}}}'
    assert (await any_port.lmtb("stop")).code == 0
    again = await asyncio.to_thread(at_terminal, any_port, b"y\n")
    assert "the manager is ready" in again and "Found here" not in again
    assert (await any_port.lmtb("stop")).code == 0
    await any_port.emptied(10)


async def test_up_leaves_a_running_manager_alone(any_port: ManagerHome) -> None:
    manager = await any_port.start()
    done = await any_port.lmtb("up")
    assert done.code == 0
    assert f"the manager is already running at {manager.address} (pid {manager.pid}" in done.out
    said = json.loads((await any_port.lmtb("up", "--json")).out)
    expected = {"ok": True, "started": False, "pid": manager.pid, "version": __version__}
    assert said == {**expected, "address": manager.address}
    assert len(any_port.processes("manager serve")) == 1


async def test_several_at_once_start_one_manager_and_all_succeed(any_port: ManagerHome) -> None:
    every = await asyncio.gather(*(any_port.lmtb("up", "--json") for _ in range(4)))
    assert [one.code for one in every] == [0] * 4, [one.err for one in every]
    assert len({json.loads(one.out)["pid"] for one in every}) == 1
    pid = (await any_port.status())["pid"]
    assert json.loads(every[0].out)["pid"] == pid


async def test_failed_start_shows_the_end_of_the_log_and_the_next_step(home: ManagerHome) -> None:
    log = home.paths.logs_dir / "manager.log"
    log.parent.mkdir(parents=True, mode=0o700)
    log.write_text("a line of an earlier manager\n")
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        port = foreign.getsockname()[1]
        configure(home, f"http_port = {port}")
        done = await home.lmtb("up")
    assert done.code == 1
    assert f"127.0.0.1:{port} is taken: another program listens on it" in done.err
    assert "Next step: look closer with: lmtb doctor" in done.err
    assert "earlier manager" not in done.err
    await home.emptied(10)


async def test_wait_ends_with_the_last_reason_and_progress_before(home: ManagerHome, tmp_path: Path) -> None:
    """An outgoing connection blocks the port: the manager waits, and `up` says so."""
    with (
        socket.create_server(("127.0.0.1", 0)) as target,
        socket.socket() as outgoing,
    ):
        outgoing.bind(("127.0.0.1", 0))
        port = outgoing.getsockname()[1]
        outgoing.connect(target.getsockname())
        configure(home, f"http_port = {port}")
        done = await home.lmtb("up", "--timeout", "3")
    assert done.code == 1
    assert done.err.startswith("starting the manager ...")
    assert "does not answer after 3 s" in done.err
    assert "outgoing connection" in done.err


async def test_sessions_and_servers_survive_a_stop_that_keeps_them_and_a_start(
    any_port: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """The order of an upgrade, by the verbs that a person uses."""
    assert (await any_port.lmtb("up")).code == 0
    address = (await any_port.status())["address"]
    client = await SessionClient.connect(http, address)
    await client.handshake(make_project(tmp_path / "proj"))
    servers = any_port.servers()
    assert servers
    assert (await any_port.lmtb("stop", "--keep-servers")).code == 0
    assert any_port.servers() == servers
    configure(any_port, f"http_port = {address.removesuffix('/mcp').rpartition(':')[2]}")
    assert (await any_port.lmtb("up")).code == 0
    assert (await client.call("calculator", {"expression": "6*7"})).payload == {"value": 42}
    assert any_port.servers() == servers


async def test_sessions_survive_a_plain_stop_and_start(
    any_port: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    assert (await any_port.lmtb("up")).code == 0
    address = (await any_port.status())["address"]
    client = await SessionClient.connect(http, address)
    await client.handshake(make_project(tmp_path / "proj"))
    assert (await any_port.lmtb("stop")).code == 0
    await any_port.emptied(10)
    configure(any_port, f"http_port = {address.removesuffix('/mcp').rpartition(':')[2]}")
    assert (await any_port.lmtb("up")).code == 0
    assert (await client.call("calculator", {"expression": "6*7"})).payload == {"value": 42}
