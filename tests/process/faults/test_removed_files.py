"""Tests that a manager makes its own files again when somebody removes them under it."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from pathlib import Path

from aiohttp import ClientSession

from manager import exit_codes
from manager.client import ManagerFault, NoManager
from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_home import ManagerHome, until
from support.processes.managers.manager_in_process import make_project

SUM = {"expression": "6*7"}
BACK_S = 15.0


def answers(home: ManagerHome) -> bool:
    try:
        return bool(home.control.get("/health"))
    except (NoManager, ManagerFault):
        return False


async def test_a_removed_runtime_folder_is_made_again_with_lock_and_socket(home: ManagerHome) -> None:
    manager = await home.start()
    shutil.rmtree(home.paths.runtime_dir)
    await until(lambda: answers(home), BACK_S, manager.log.read_text)
    assert "control_socket.made_again" in manager.log.read_text()
    second = await home.launch()
    assert await second.ended() == exit_codes.OK
    assert "another manager serves already" in second.log.read_text()


async def test_a_stop_waits_for_a_control_socket_that_was_removed(home: ManagerHome) -> None:
    """It never says that there is nothing to stop while a manager serves."""
    manager = await home.start()
    home.paths.config_file.parent.mkdir(parents=True)
    home.paths.config_file.write_text(f"http_port = {manager.port}\n")
    home.paths.control_socket.unlink()
    stopped = await home.lmtb("stop")
    assert (stopped.code, "nothing to stop" in stopped.out) == (0, False), stopped
    assert await manager.ended() == exit_codes.OK


async def test_a_removed_state_folder_is_told_and_made_again_with_its_sessions(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    manager = await home.start()
    client = await SessionClient.connect(http, manager.address)
    await client.handshake(make_project(tmp_path / "proj"))
    shutil.rmtree(home.paths.state_dir)
    await until(lambda: "state.recovered" in manager.log.read_text(), BACK_S, manager.log.read_text)
    assert (await home.status())["state"] == "ready"
    await manager.killed()
    after = await home.start(http_port=manager.port)
    client.url = after.address
    assert (await client.call("calculator", SUM)).payload == {"value": 42}


async def test_a_closed_terminal_is_an_orderly_stop(home: ManagerHome) -> None:
    default = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    manager = await home.start(prefix=[sys.executable, "-c", default])  # the tests may run under `nohup`
    manager.send(signal.SIGHUP)
    assert await manager.ended() == exit_codes.OK
    assert "SIGHUP" in manager.log.read_text()


async def test_a_manager_started_by_nohup_ignores_a_closed_terminal(home: ManagerHome) -> None:
    manager = await home.start(prefix=["nohup"])
    manager.send(signal.SIGHUP)
    await asyncio.to_thread(home.control.get, "/status")
    manager.send(signal.SIGTERM)
    assert await manager.ended() == exit_codes.OK
    assert "SIGHUP" not in manager.log.read_text()
