"""The status lists who is connected, of both eras, and after a restart of the manager, too."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from lm_tools_bridge.protocol import headers, names
from support.clients.raw_clients import SessionClient, StatelessClient
from support.clients.stateless_requests import events
from support.processes.managers.manager_in_process import RunningManager, make_project, running_manager

pytestmark = pytest.mark.processes

KINDS = {"toolsListChanged": True}
INITIALIZE = {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
}  # fmt: skip


async def clients(http: ClientSession, manager: RunningManager) -> list[dict[str, Any]]:
    """The clients of the status, the last one first."""
    async with http.get(manager.base + "/mcp/status") as response:
        shown = await response.json()
    connected = [one for one in shown["clientDetails"] if one["state"] == "connected"]
    assert shown["connectedClients"] == len(connected)
    found: list[dict[str, Any]] = shown["clientDetails"]
    return found


async def test_clients_of_both_eras_are_listed_with_their_project(
    manager: RunningManager, http: ClientSession, tmp_path: Path
) -> None:
    project = make_project(tmp_path / "proj")
    session = await SessionClient.connect(http, f"{manager.address}?cwd={project}")
    answer = await session.ask(names.TOOLS_LIST)
    lost = StatelessClient(http, f"{manager.address}?cwd={tmp_path}/missing")
    await lost.ask(names.TOOLS_LIST)
    second, first = await clients(http, manager)
    expected = {"era": "legacy", "state": "connected", "source": "query", "sessions": 1, "streaming": False}
    assert {**first, **expected} == first
    assert (first["workspace"], first["folder"]) == (answer.headers[headers.WORKSPACE_ID], str(project))
    expected = {"era": "modern", "state": "connected", "source": "none", "workspace": None, "sessions": 0}
    assert {**second, **expected} == second
    assert second["folder"] == f"{tmp_path}/missing"


@pytest.mark.parametrize("endpoint", ["fixed", "query"])
async def test_an_open_listen_stream_is_noted_until_the_client_leaves(
    manager: RunningManager, http: ClientSession, tmp_path: Path, endpoint: str
) -> None:
    """Later requests of the client change nothing about it."""
    url = manager.address if endpoint == "fixed" else f"{manager.address}?cwd={make_project(tmp_path / 'p')}"
    client = StatelessClient(http, url)
    async with client.open(client.body(names.LISTEN, {"notifications": KINDS}, 1)) as response:
        await events(response, 1)
        for _ in range(8):
            await client.ask(names.TOOLS_LIST)
        (row,) = await clients(http, manager)
        assert (row["streaming"], row["source"]) == (True, "none" if endpoint == "fixed" else "query")
    async with asyncio.timeout(5):
        while (await clients(http, manager))[0]["streaming"]:
            await asyncio.sleep(0.01)


async def test_a_session_that_its_client_ended_is_gone(manager: RunningManager, http: ClientSession) -> None:
    client = await SessionClient.connect(http, manager.address)
    await client.ask(names.TOOLS_LIST)
    async with http.delete(manager.address, headers={headers.SESSION: client.session or ""}) as gone:
        assert gone.status == 200
    (row,) = await clients(http, manager)
    assert (row["name"], row["state"], row["sessions"]) == ("test", "gone", 0)


CLIENT = """
import http.client, json, sys
address, requests = sys.argv[1].removeprefix("http://"), json.loads(sys.argv[2])
host, _, path = address.partition("/")
connection, session = http.client.HTTPConnection(host), {}
for body, head in requests:
    connection.request("POST", "/" + path, body, {**head, **session})
    response = connection.getresponse()
    response.read()
    if made := response.getheader("Mcp-Session-Id"):
        session = {"Mcp-Session-Id": made}
print("asked", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="ends it with a signal")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_client_whose_process_was_killed_is_gone_at_once(
    manager: RunningManager, http: ClientSession, era: str
) -> None:
    raw = SessionClient(http, manager.address) if era == "legacy" else StatelessClient(http, manager.address)
    asked: list[tuple[str, dict[str, Any] | None]] = [(names.TOOLS_LIST, None), (names.PROMPTS_LIST, None)]
    if era == "legacy":
        asked.insert(0, (names.INITIALIZE, INITIALIZE))
    requests = []
    for number, (method, params) in enumerate(asked):
        body = raw.body(method, params, number)
        requests.append((body.decode(), raw.header(body)))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, manager.address, json.dumps(requests), stdin=PIPE, stdout=PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"asked\n"
    async with asyncio.timeout(5):
        while (await clients(http, manager))[0]["pids"] != [process.pid]:
            await asyncio.sleep(0.01)
    (row,) = await clients(http, manager)
    assert (row["era"], row["state"]) == (era, "connected")
    process.kill()
    await process.wait()
    (row,) = await clients(http, manager)
    assert (row["state"], row["pids"]) == ("gone", [])


async def test_project_and_what_decided_it_survive_a_restart(http: ClientSession, tmp_path: Path) -> None:
    """The client is silent since then, so that no request decides again."""
    project = make_project(tmp_path / "proj")
    async with running_manager(tmp_path / "manager") as manager:
        client = await SessionClient.connect(http, manager.address)
        client.extra = {headers.WORKSPACE_CWD: str(project)}
        await client.ask(names.TOOLS_LIST)
        (before,) = await clients(http, manager)
    async with running_manager(tmp_path / "manager") as manager:
        (after,) = await clients(http, manager)
    assert (before["source"], before["folder"]) == ("header", str(project))
    same = ("name", "version", "era", "workspace", "folder", "source", "state", "sessions")
    assert [after[one] for one in same] == [before[one] for one in same]
