"""A machine that sleeps: the manager and everything it started stand still for a while, and go on."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from aiohttp import ClientSession

from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_home import ManagerHome
from support.processes.managers.manager_in_process import make_project
from support.processes.timeouts import within

SUM = {"expression": "6*7"}
ASLEEP_S = 3.0
"""Longer than all times below after which a server that does not answer is given up."""


async def test_after_a_sleep_of_all_processes_every_server_and_session_lives_on(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """No server is taken for one that hangs, and none is started anew."""
    manager = await home.start(health_interval_s=0.3, health_timeout_s=0.5, health_misses=2, hung_restart_s=1)
    clients = [await SessionClient.connect(http, manager.address) for _ in range(3)]
    for number, client in enumerate(clients):
        await client.handshake(make_project(tmp_path / f"p{number}"))
    before = await home.server_pids()
    everything = list(home.processes())
    assert {manager.pid, *before.values()} <= set(everything)
    for pid in everything:
        os.kill(pid, signal.SIGSTOP)
    try:
        asked = asyncio.create_task(clients[0].call("calculator", SUM))
        await asyncio.sleep(ASLEEP_S)
        assert not asked.done()
    finally:
        for pid in everything:
            os.kill(pid, signal.SIGCONT)
    assert (await asyncio.wait_for(asked, within(5))).payload == {"value": 42}
    for client in clients:
        assert (await client.call("calculator", SUM)).payload == {"value": 42}
    await asyncio.sleep(ASLEEP_S / 2)  # several health checks
    status = await home.status()
    assert {one["workspace"]: one["pid"] for one in status["instanceDetails"]} == before
    assert [one["restarts"] for one in status["instanceDetails"]] == [0, 0, 0]
    assert "workspace.replaced" not in manager.log.read_text()
