"""Handshakes wait for a server that starts or registers, and stop waiting when cancelled."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from lm_tools_bridge.protocol import headers, names
from support.clients.raw_clients import EVENTS, JSON, SessionClient, StatelessClient
from support.processes.managers.manager_in_process import make_project, running_manager
from support.processes.timeouts import within
from support.projects.registered_setup import raw_http
from support.servers.scripted.scripted_workspace_server import ScriptedWorkspaceServer

pytestmark = pytest.mark.processes


async def test_fifty_cold_handshakes_start_one_process(tmp_path: Path) -> None:
    """50 handshakes get the same target when the one server is ready, with and without sessions."""
    project = make_project(tmp_path / "proj")
    async with running_manager(tmp_path / "manager") as manager, raw_http() as http:
        legacy = [await SessionClient.connect(http, manager.address) for _ in range(25)]
        clients = [*legacy, *(StatelessClient(http, manager.address) for _ in range(25))]
        answers = await asyncio.gather(*(client.handshake(project) for client in clients))
        targets = [answer.payload["target"] for answer in answers]
        assert all(target == targets[0] for target in targets)
        listed = await ScriptedWorkspaceServer(project, manager.paths.control_socket).control("GET", "/list")
        assert [one["sessionId"] for one in listed["instances"]] == [targets[0]["sessionId"]]
        assert len(list(manager.paths.logs_dir.glob("*.log"))) == 1


async def test_a_handshake_waits_for_a_server_that_is_registering(tmp_path: Path) -> None:
    """A match 1.2 s later answers within 0.5 s of it; progress is told meanwhile."""
    folder = tmp_path / "late"
    folder.mkdir()
    async with running_manager(tmp_path / "manager", match_wait_s=5) as manager, raw_http() as http:
        clients = [
            await SessionClient.connect(http, manager.address),
            StatelessClient(http, manager.address),
            StatelessClient(http, manager.address, accept=JSON),
        ]
        upstream = ScriptedWorkspaceServer(folder, manager.paths.control_socket)
        async with upstream.serving(registered=False):
            waiting = [
                asyncio.create_task(client.handshake(folder, meta={"progressToken": "tok"}))
                for client in clients
            ]
            await asyncio.sleep(1.2)
            assert not any(task.done() for task in waiting)
            await upstream.register()
            matched = time.monotonic()
            answers = await asyncio.gather(*waiting)
            assert time.monotonic() - matched < within(0.5)
    for answer, told in zip(answers, (True, True, False), strict=True):
        assert answer.payload["target"]["sessionId"] == upstream.session_id
        params = [one["params"] for one in answer.messages[:-1] if one["method"] == names.PROGRESS]
        assert bool(params) == answer.is_stream == told
        assert [one["progress"] for one in params] == list(range(1, len(params) + 1))
        assert {one["progressToken"] for one in params} <= {"tok"}


async def test_without_a_token_there_is_no_progress(tmp_path: Path) -> None:
    """The wait ends in time."""
    folder = tmp_path / "nowhere"
    folder.mkdir()
    async with running_manager(tmp_path / "manager", match_wait_s=1.2) as manager, raw_http() as http:
        client = StatelessClient(http, manager.address, accept=EVENTS)
        began = time.monotonic()
        answer = await client.handshake(folder)
        assert 1.2 <= time.monotonic() - began < 1.2 + within(0.5)
    assert answer.refusal["code"] == 47101
    assert len(answer.messages) == 1


async def test_a_cancelled_handshake_binds_nothing(tmp_path: Path) -> None:
    """No late answer, no binding."""
    folder = tmp_path / "late"
    folder.mkdir()
    async with running_manager(tmp_path / "manager", match_wait_s=5) as manager, raw_http() as http:
        client = await SessionClient.connect(http, manager.address)
        upstream = ScriptedWorkspaceServer(folder, manager.paths.control_socket)
        body = client.body(names.TOOLS_CALL, {"name": names.HANDSHAKE, "arguments": {"cwd": str(folder)}}, 9)
        waiting = asyncio.create_task(client.post(body))
        while (await client.ask("ping", identity=9)).status == 200:
            await asyncio.sleep(0)
        await client.notify(names.CANCELLED, {"requestId": 9})
        assert (await asyncio.wait_for(waiting, 1)).body == b""
        async with upstream.serving():
            assert (await client.call("echo")).refusal["code"] == 47100


async def test_a_start_continues_when_one_of_its_clients_leaves(tmp_path: Path) -> None:
    """Others wait for the same start."""
    project = make_project(tmp_path / "proj")
    async with running_manager(tmp_path / "manager") as manager, raw_http() as http:
        leaving = asyncio.create_task(StatelessClient(http, manager.address).handshake(project))
        staying = asyncio.create_task(StatelessClient(http, manager.address).handshake(project))
        async with asyncio.timeout(5):
            while not list(manager.paths.logs_dir.glob("*.log")):
                await asyncio.sleep(0.005)
        leaving.cancel()
        assert (await staying).payload["ok"] is True
        assert len(list(manager.paths.logs_dir.glob("*.log"))) == 1


async def test_a_call_waits_for_a_cold_server_like_a_handshake(tmp_path: Path) -> None:
    """By cwd, and by a handle that is still known."""
    project = make_project(tmp_path / "proj")
    async with running_manager(tmp_path / "manager") as manager, raw_http() as http:
        client = StatelessClient(http, manager.address)
        add = {"name": "calculator", "arguments": {"expression": "40+2"}}
        cold = await client.call(names.CALL_TOOL, {**add, "cwd": str(project)})
        assert cold.payload == {"value": 42}
        workspace = cold.headers[headers.WORKSPACE_ID]
        assert (await client.call(names.CALL_TOOL, {**add, "workspace": workspace})).payload == {"value": 42}
        unknown = (await client.call(names.CALL_TOOL, {**add, "workspace": "nope-12345678"})).refusal
        assert (unknown["code"], unknown["message"]) == (47101, "workspace not matched: nope-12345678")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
async def test_a_server_that_is_only_slow_is_not_replaced(tmp_path: Path) -> None:
    """The calls of others would end with it."""
    project = make_project(tmp_path / "proj")
    async with running_manager(tmp_path / "manager", health_timeout_s=0.4) as manager, raw_http() as http:
        client = StatelessClient(http, manager.address)
        before = (await client.handshake(project)).payload["target"]
        listed = await ScriptedWorkspaceServer(project, manager.paths.control_socket).control("GET", "/list")
        pid = listed["instances"][0]["pid"]
        os.kill(pid, signal.SIGSTOP)
        again = asyncio.create_task(client.handshake(project))
        await asyncio.sleep(0.6)  # one health request was in vain
        os.kill(pid, signal.SIGCONT)
        assert (await again).payload["target"] == before
