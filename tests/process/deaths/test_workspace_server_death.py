"""Tests a workspace server that dies or hangs: its callers get an error, others are not affected."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from support.clients.raw_clients import Answer, SessionClient
from support.processes.managers.manager_home import BOTH_WAYS, ManagerHome, until
from support.processes.managers.manager_in_process import make_project
from support.processes.managers.stdio_families import user_tool
from support.processes.timeouts import within

SUM = {"expression": "6*7"}


async def bound(http: ClientSession, address: str, project: Path) -> tuple[SessionClient, str]:
    """A client bound to a project, and the project's workspace id."""
    client = await SessionClient.connect(http, address)
    return client, str((await client.handshake(project)).payload["workspace"])


async def held_call(home: ManagerHome, client: SessionClient, pid: int) -> asyncio.Task[Answer]:
    """Stops the server with SIGSTOP, and starts a call at it."""
    os.kill(pid, signal.SIGSTOP)
    call = asyncio.create_task(client.call("calculator", SUM))
    for _ in range(200):
        details = (await home.status())["instanceDetails"]
        if next(one["inFlight"] for one in details if one["pid"] == pid):
            return call
        await asyncio.sleep(0.01)
    raise AssertionError("the call was never in flight")


async def state_reached(home: ManagerHome, state: str) -> dict[str, Any]:
    """Waits until the only instance has this state, and returns its details."""
    for _ in range(500):
        detail: dict[str, Any] = (await home.status())["instanceDetails"][0]
        if detail["state"] == state:
            return detail
        await asyncio.sleep(0.02)
    raise AssertionError(detail)


async def end_noticed(home: ManagerHome, pid: int) -> None:
    """Waits until the manager has noticed that the process has ended."""
    async with asyncio.timeout(within(5)):
        while any(one.get("pid") == pid for one in (await home.status())["instanceDetails"]):
            await asyncio.sleep(0.02)


def has_ended(pid: int) -> bool:
    """Whether all threads of a process have ended, which closes its sockets; the main thread may end earlier."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 0)[0])
    finally:
        os.close(descriptor)


@BOTH_WAYS
async def test_a_killed_server_fails_the_call_at_once_and_serves_the_next(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """The call fails within 0.5 s with error 47103 and `delivered: unknown`; other workspaces are not affected."""
    manager = await home.start()
    one, first = await bound(http, manager.address, make_project(tmp_path / "one"))
    other, second = await bound(http, manager.address, make_project(tmp_path / "other"))
    pids = await home.server_pids()
    doomed = await held_call(home, one, pids[first])
    unhurt = await held_call(home, other, pids[second])

    killed_at = time.monotonic()
    os.kill(pids[first], signal.SIGKILL)
    refusal = (await asyncio.wait_for(doomed, 5)).refusal
    assert time.monotonic() - killed_at < within(0.5)
    assert (refusal["code"], refusal["reason"]) == (47103, "workspace_server_died")
    assert refusal["delivered"] == "unknown"

    again = await one.call("calculator", SUM)
    assert again.payload == {"value": 42}
    assert not unhurt.done()
    os.kill(pids[second], signal.SIGCONT)
    assert (await asyncio.wait_for(unhurt, 5)).payload == {"value": 42}

    now = await home.server_pids()
    assert now[second] == pids[second]
    assert now[first] != pids[first]
    assert home.servers() == set(now.values())

    os.kill(pids[second], signal.SIGKILL)  # between two calls: the next one does not notice
    await until(lambda: has_ended(pids[second]))
    answer = await other.call("calculator", SUM)
    assert answer.payload == {"value": 42}
    assert answer.headers["X-Workspace-Source"] == "session"
    assert home.servers() == set((await home.server_pids()).values())


async def test_a_hung_server_is_replaced_and_calls_are_refused_until_then(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """It is unhealthy after three missed health answers, and then killed and started again."""
    manager = await home.start(health_interval_s=0.1, health_timeout_s=0.1, hung_restart_s=1)
    client, workspace = await bound(http, manager.address, make_project(tmp_path / "one"))
    pid = (await home.server_pids())[workspace]
    hanging = await held_call(home, client, pid)
    await state_reached(home, "unhealthy")
    asked_at = time.monotonic()
    refusal = (await client.call("calculator", SUM)).refusal
    assert time.monotonic() - asked_at < within(1)
    assert (refusal["code"], refusal["details"]["cause"]) == (47102, "unhealthy")
    assert refusal["delivered"] == "no"
    assert (await asyncio.wait_for(hanging, 5)).refusal["code"] == 47103
    await until(lambda: pid not in home.processes())
    await end_noticed(home, pid)
    assert (await client.call("calculator", SUM)).payload == {"value": 42}


async def test_a_server_that_wakes_up_in_time_is_kept(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """It is stopped and continued before the deadline, and becomes healthy again without a restart."""
    manager = await home.start(health_interval_s=0.1, health_timeout_s=0.1, hung_restart_s=20)
    client, workspace = await bound(http, manager.address, make_project(tmp_path / "one"))
    pid = (await home.server_pids())[workspace]
    os.kill(pid, signal.SIGSTOP)
    await state_reached(home, "unhealthy")
    os.kill(pid, signal.SIGCONT)
    detail = await state_reached(home, "ready")
    assert (detail["pid"], detail["restarts"]) == (pid, 0)
    assert (await client.call("calculator", SUM)).payload == {"value": 42}


class SlowTool:
    """A tool that runs until `go_on`, and a client that has called it."""

    def __init__(self, home: ManagerHome, project: Path) -> None:
        self.started, self.gate = project / "started", project / "gate"
        user_tool(
            home,
            "slow",
            f"touch '{self.started}'; while [ ! -e '{self.gate}' ]; do sleep 0.02; done; echo done",
        )

    async def call(self, client: SessionClient) -> asyncio.Task[Answer]:
        """Calls it, and waits until it runs."""
        call = asyncio.create_task(client.call("slow"))
        await until(self.started.exists)
        return call


@BOTH_WAYS
async def test_a_server_that_is_told_to_stop_finishes_its_call_while_another_takes_new_ones(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    project = make_project(tmp_path / "proj")
    tool = SlowTool(home, project)
    manager = await home.start()
    client, workspace = await bound(http, manager.address, project)
    call = await tool.call(client)
    leaving = (await home.server_pids())[workspace]
    os.kill(leaving, signal.SIGTERM)
    async with asyncio.timeout(within(10)):
        while (await home.server_pids()).get(workspace) in (None, leaving):
            await asyncio.sleep(0.02)
    assert (await client.call("calculator", SUM)).payload == {"value": 42}
    assert not call.done()
    tool.gate.touch()
    assert "done" in (await call).result["content"][0]["text"]
    await until(lambda: has_ended(leaving))


async def test_a_second_signal_ends_a_server_and_its_calls_at_once(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    project = make_project(tmp_path / "proj")
    manager = await home.start()
    tool = SlowTool(home, project)
    client, workspace = await bound(http, manager.address, project)
    call = await tool.call(client)
    leaving = (await home.server_pids())[workspace]
    os.kill(leaving, signal.SIGTERM)
    await until(lambda: "workspace.leaving" in manager.log.read_text())
    os.kill(leaving, signal.SIGTERM)
    async with asyncio.timeout(within(5)):
        assert (await call).error["code"] == 47103
    await until(lambda: has_ended(leaving), within(5))


async def test_a_stop_of_the_manager_ends_a_call_that_is_stuck_in_order(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """No server has to be killed."""
    project = make_project(tmp_path / "proj")
    manager = await home.start(drain_s=0.1)
    tool = SlowTool(home, project)
    client, workspace = await bound(http, manager.address, project)
    call = await tool.call(client)
    log = home.paths.logs_dir / f"{workspace}.log"
    manager.send(signal.SIGTERM)
    assert (await call).error["code"] == 47103
    assert await manager.ended(within(5)) == 0
    assert '"event": "stopping"' in log.read_text()
