"""Servers that other programs start and register on the control socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, UnixConnector

from lm_tools_bridge.protocol import headers, names
from manager.routing.state.registrations import SUSPECT_AFTER_S
from support.clients.raw_clients import Answer, SessionClient, StatelessClient
from support.processes.managers.manager_in_process import (
    RunningManager,
    make_project,
    manager_paths,
    running_manager,
)
from support.servers.scripted.scripted_workspace_server import ScriptedWorkspaceServer

pytestmark = pytest.mark.processes

WORK = {"name": "work", "inputSchema": {"type": "object"}}


def upstream_of(manager: RunningManager, root: Path) -> ScriptedWorkspaceServer:
    """A scripted server for a project folder, not serving yet."""
    made = ScriptedWorkspaceServer(root, manager.paths.control_socket)
    made.tools = [WORK]
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The project folder of the scripted servers."""
    return make_project(tmp_path.resolve() / "proj")


@pytest.fixture
async def upstream(manager: RunningManager, root: Path) -> AsyncIterator[ScriptedWorkspaceServer]:
    """A registered server that is ready."""
    async with upstream_of(manager, root).serving() as serving:
        yield serving


@pytest.fixture
async def client(
    manager: RunningManager, http: ClientSession, upstream: ScriptedWorkspaceServer
) -> SessionClient:
    """A session bound to the registered server."""
    connected = await SessionClient.connect(http, manager.address)
    payload = (await connected.handshake(upstream.root)).payload
    assert payload["target"]["sessionId"] == upstream.session_id
    return connected


async def control(
    manager: RunningManager, method: str, path: str, body: object = None
) -> tuple[int, dict[str, Any]]:
    """One question on the control socket: status and answer."""
    connector = UnixConnector(str(manager.paths.control_socket))
    async with (
        ClientSession(connector=connector) as http,
        http.request(method, f"http://localhost{path}", json=body) as response,
    ):
        return response.status, await response.json()


async def shown(manager: RunningManager, upstream: ScriptedWorkspaceServer) -> dict[str, Any] | None:
    """What status says of a server."""
    _, status = await control(manager, "GET", "/mcp/status")
    found = [one for one in status["instanceDetails"] if one["sessionId"] == upstream.session_id]
    return found[0] if found else None


@contextlib.asynccontextmanager
async def moved(upstream: ScriptedWorkspaceServer) -> AsyncIterator[ScriptedWorkspaceServer]:
    """The same server at another port, not told to the manager yet."""
    other = ScriptedWorkspaceServer(upstream.root, upstream._control_socket)
    other.tools = upstream.tools
    other.session_id, other.nonce, other.secret = upstream.session_id, upstream.nonce, upstream.secret
    async with other.serving(registered=False):
        yield other


async def test_a_server_is_used_once_its_health_check_echoes_the_nonce(
    tmp_path: Path, http: ClientSession, root: Path
) -> None:
    """A handshake that came first waits for it; nothing of ours is started."""
    async with running_manager(tmp_path / "manager", match_wait_s=5, auto_start=False) as manager:
        upstream = upstream_of(manager, root)
        with socket.create_server(("127.0.0.1", 0)) as free:
            upstream.port = free.getsockname()[1]
        client = await SessionClient.connect(http, manager.address)
        await upstream.heartbeat()  # it does not listen yet
        assert upstream.secret
        assert await upstream.state() == "starting"
        early = asyncio.create_task(client.handshake(root))
        await asyncio.wait({early}, timeout=0.3)
        assert not early.done()
        async with upstream.serving():
            payload = (await asyncio.wait_for(early, 2)).payload
        assert payload["target"] == {
            "sessionId": upstream.session_id,
            "host": "127.0.0.1",
            "port": upstream.port,
            "workspaceFolders": [str(root)],
            "workspaceFile": None,
        }
        assert [tool["name"] for tool in payload["discovery"]["bridgedTools"]] == ["work"]
        assert "nonce" not in payload["health"]["data"]


async def test_calls_follow_a_server_to_its_new_port(
    manager: RunningManager, client: SessionClient, upstream: ScriptedWorkspaceServer
) -> None:
    """The next call goes to the new address, without a handshake."""
    assert (await client.call("work")).status == 200
    async with moved(upstream) as other:
        await other.heartbeat()
        assert (await client.call("work")).result["content"]
        assert (len(upstream.called()), len(other.called())) == (1, 1)
        assert (await shown(manager, upstream) or {})["port"] == other.port


async def test_a_registered_server_is_not_asked_for_one_of_its_servers(
    manager: RunningManager, client: SessionClient, upstream: ScriptedWorkspaceServer
) -> None:
    """It would not know that the client may have this server alone, and would give it all."""
    workspace = (await client.call("work")).headers[headers.WORKSPACE_ID]
    url = f"{manager.base}/w/{workspace}/s/clock/mcp"
    session = await SessionClient.connect(client.http, url)
    for asking in (session, StatelessClient(client.http, url)):
        for _ in range(2):
            answer = await asking.call("work")
            assert "has no addresses of single servers" in answer.body.decode()
            assert "has no addresses of single servers" in (await asking.ask(names.TOOLS_LIST)).body.decode()
    assert len(upstream.called()) == 1


async def test_a_heartbeat_replaces_the_whole_record(
    manager: RunningManager, root: Path, tmp_path: Path, upstream: ScriptedWorkspaceServer
) -> None:
    """Folders and file that are not said any more do not match any more."""
    second = make_project(tmp_path.resolve() / "second")
    file = tmp_path.resolve() / "all.code-workspace"
    file.write_text("{}")
    upstream.folders = [str(root), str(second)]
    with_file = {**upstream.payload(), "workspaceFile": str(file)}
    await upstream.control("POST", "/heartbeat", with_file)
    for place in (root, second, file):
        _, answer = await control(manager, "POST", "/resolve", {"cwd": str(place)})
        assert answer["match"]["sessionId"] == upstream.session_id, place
    upstream.folders = [str(root)]
    await upstream.heartbeat()
    detail = await shown(manager, upstream) or {}
    assert (detail["workspaceFolders"], detail["workspaceFile"]) == ([str(root)], None)
    _, answer = await control(manager, "POST", "/resolve", {"cwd": str(second)})
    assert answer["match"]["sessionId"] is None


async def test_a_silent_server_is_suspect_then_dropped(
    tmp_path: Path, http: ClientSession, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its health is asked before the next call; silent for long, it is out of matching."""
    registrations = "manager.routing.state.registrations"
    monkeypatch.setattr(f"{registrations}.SUSPECT_AFTER_S", 0.1)
    monkeypatch.setattr("manager.supervision.registered_servers.SWEEP_EVERY_S", 0.02)
    async with running_manager(tmp_path / "manager", auto_start=False) as manager:
        upstream = upstream_of(manager, root)
        async with upstream.serving(registered=False):
            await upstream.register()
            client = await SessionClient.connect(http, manager.address)
            await client.handshake(root)
            await reached(manager, upstream, "suspect")
            asked = upstream.health_asked
            assert (await client.call("work")).result["content"]
            assert upstream.health_asked > asked
            monkeypatch.setattr(f"{registrations}.FORGOTTEN_AFTER_S", 0.1)
            await reached(manager, upstream, None)
            assert (await control(manager, "POST", "/resolve", {"cwd": str(root / "x")}))[0] == 400
            _, listed = await control(manager, "GET", "/list")
            assert listed["instances"] == []


async def reached(manager: RunningManager, upstream: ScriptedWorkspaceServer, state: str | None) -> None:
    """Wait until the server is in that state, None for unknown."""
    async with asyncio.timeout(5):
        while ((await shown(manager, upstream)) or {"state": None})["state"] != state:
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def owned_by_a_process(
    upstream: ScriptedWorkspaceServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Register the server anew as that of another process, which can be killed."""
    process = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        payload = {**upstream.payload(), "pid": process.pid, "nonce": "of-the-process"}
        monkeypatch.setattr(upstream, "payload", lambda: payload)
        upstream.nonce = "of-the-process"
        await upstream.register()
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_the_exit_of_a_servers_process_is_noticed_at_once(
    manager: RunningManager,
    client: SessionClient,
    upstream: ScriptedWorkspaceServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No call goes to a port whose owner has ended, though somebody answers there."""
    async with owned_by_a_process(upstream, monkeypatch) as process:
        process.kill()
        await process.wait()
        await reached(manager, upstream, None)
        assert_offline(await client.call("work"))
        assert not upstream.called()


async def test_a_killed_server_is_gone_from_status_long_before_it_is_silent(
    manager: RunningManager,
    client: SessionClient,
    upstream: ScriptedWorkspaceServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From list, status and handshake resource alike; heartbeats that somebody still sends for it are refused."""
    async with owned_by_a_process(upstream, monkeypatch) as process:
        process.kill()
        await process.wait()
        async with asyncio.timeout(SUSPECT_AFTER_S / 2):
            await reached(manager, upstream, None)
        assert await upstream.state() is None
        _, status = await control(manager, "GET", "/mcp/status")
        assert status["instanceDetails"] == []
        assert status["sessionDetails"][0]["target"] is None
        assert (await snapshot_of(client))["ready"] is False
        assert (await control(manager, "POST", "/heartbeat", upstream.payload()))[0] == 400
        assert await shown(manager, upstream) is None


@pytest.mark.always
@pytest.mark.parametrize("echoed", ["another", None])
async def test_a_wrong_nonce_gets_neither_call_nor_secret(
    manager: RunningManager, http: ClientSession, root: Path, echoed: str | None
) -> None:
    """The port answers, but is somebody else's."""
    upstream = upstream_of(manager, root)
    async with upstream.serving(registered=False):
        await upstream.heartbeat()
        # its health answers have another nonce from the first one on
        true_nonce, upstream.nonce = upstream.nonce, echoed or ""
        await reached(manager, upstream, "unhealthy")
        assert (await shown(manager, upstream) or {})["cause"] == "identity_mismatch"
        client = await SessionClient.connect(http, manager.address)
        assert (await client.handshake(root)).payload["target"]["sessionId"] != upstream.session_id
        assert (await client.call("calculator", {"expression": "6*7"})).payload == {"value": 42}
        assert upstream.received == []
        upstream.nonce = true_nonce


async def test_a_server_that_says_it_is_not_well_is_unhealthy_and_no_stranger(
    manager: RunningManager, http: ClientSession, root: Path
) -> None:
    """Its nonce is right, but the status is 503."""
    upstream = upstream_of(manager, root)
    async with upstream.serving(registered=False):
        upstream.is_well = False
        await upstream.heartbeat()
        client = await SessionClient.connect(http, manager.address)
        while (one := await shown(manager, upstream)) is not None and one["health"]["answers"]["misses"] < 3:
            await upstream.heartbeat()
        assert (one or {})["cause"] in (None, "unhealthy")
        upstream.is_well = True
        await upstream.heartbeat()
        await reached(manager, upstream, "ready")
        assert (await client.handshake(root)).payload["target"]["sessionId"] == upstream.session_id


async def test_of_two_servers_on_one_port_the_echoed_nonce_counts(
    manager: RunningManager, client: SessionClient, upstream: ScriptedWorkspaceServer, tmp_path: Path
) -> None:
    """The impostor takes nothing away."""
    impostor = upstream_of(manager, make_project(tmp_path / "other"))
    impostor.port = upstream.port
    await impostor.heartbeat()
    await reached(manager, impostor, "unhealthy")
    await reached(manager, upstream, "ready")
    answer = await client.call("work")
    assert answer.result["content"]
    assert answer.headers[headers.WORKSPACE_SOURCE] == "session"


async def test_a_registration_in_the_old_format_is_shown_but_not_used(
    manager: RunningManager, http: ClientSession, root: Path
) -> None:
    editor = upstream_of(manager, root)
    async with editor.serving(registered=False):
        payload = editor.payload()
        del payload["nonce"], payload["kind"]
        answer = await editor.control("POST", "/heartbeat", payload)
        assert "secret" not in answer
        _, listed = await control(manager, "GET", "/list")
        assert [(one["kind"], one["owner"]) for one in listed["instances"]] == [("editor", "external")]
        assert (await shown(manager, editor) or {})["kind"] == "editor"
        client = await SessionClient.connect(http, manager.address)
        assert (await client.handshake(root)).payload["target"]["port"] != editor.port
        assert (editor.received, editor.health_asked) == ([], 0)


async def test_a_new_manager_learns_of_a_server_by_its_next_heartbeat(
    tmp_path: Path, http: ClientSession, root: Path
) -> None:
    """It was not stopped, its nonce is the old one, the session is still bound."""
    upstream = ScriptedWorkspaceServer(root, manager_paths(tmp_path / "manager").control_socket)
    upstream.tools = [WORK]
    async with upstream.serving(registered=False):
        async with running_manager(tmp_path / "manager") as first:
            await upstream.register()
            client = await SessionClient.connect(http, first.address)
            await client.handshake(root)
        async with running_manager(tmp_path / "manager", http_port=first.port):
            await upstream.register()
            answer = await client.call("work")
        assert answer.result["content"]
        assert answer.headers[headers.WORKSPACE_SOURCE] == "session"
        assert len(upstream.called()) == 1
    assert os.getpid() == upstream.payload()["pid"]


async def test_calls_after_a_restart_of_the_manager_wait_for_the_servers_next_heartbeat(
    tmp_path: Path, http: ClientSession, root: Path
) -> None:
    """No server of the manager's own is started meanwhile, whichever way the project is named."""
    upstream = ScriptedWorkspaceServer(root, manager_paths(tmp_path / "manager").control_socket)
    upstream.tools = [WORK]
    async with upstream.serving(registered=False):
        upstream.is_silent = True
        async with running_manager(tmp_path / "manager") as first:
            await upstream.register()
            client = await SessionClient.connect(http, first.address)
            await client.handshake(root)
        async with running_manager(tmp_path / "manager", http_port=first.port) as second:
            at_project = StatelessClient(http, f"{second.address}?cwd={root}")
            calls = [asyncio.create_task(one.call("work")) for one in (client, at_project)]
            handshake = asyncio.create_task(
                (await SessionClient.connect(http, second.address)).handshake(root)
            )
            await upstream.register()
            for call in calls:
                assert (await call).result["content"]
            assert (await handshake).payload["target"]["sessionId"] == upstream.session_id
            _, status = await control(second, "GET", "/mcp/status")
    assert len(upstream.called()) == 2
    assert [one["owner"] for one in status["instanceDetails"]] == ["external"]


async def test_a_server_that_does_not_come_back_to_a_new_manager_is_offline(
    tmp_path: Path, http: ClientSession, root: Path
) -> None:
    """As if it had left. What the next manager expects is only what this one had."""
    upstream = ScriptedWorkspaceServer(root, manager_paths(tmp_path / "manager").control_socket)
    async with upstream.serving(registered=False):
        upstream.is_silent = True
        async with running_manager(tmp_path / "manager") as first:
            await upstream.register()
            client = await SessionClient.connect(http, first.address)
            await client.handshake(root)
    async with running_manager(tmp_path / "manager", http_port=first.port):
        assert_offline(await client.call("work"))
    async with running_manager(tmp_path / "manager", http_port=first.port):
        assert (await client.call("calculator", {"expression": "6*7"})).payload == {"value": 42}


async def leave(manager: RunningManager, upstream: ScriptedWorkspaceServer) -> None:
    """The server says goodbye, and renews its registration no more."""
    upstream.is_silent = True
    assert await control(manager, "POST", "/bye", {"sessionId": upstream.session_id}) == (200, {"ok": True})


def assert_offline(answer: Answer) -> None:
    """The refusal for the clients of a registered server that left, which says how to go on."""
    error = answer.refusal
    assert (error["code"], error["reason"]) == (47102, "workspace_server_offline")
    assert error["message"].startswith("resolved MCP server is offline: ")
    assert names.HANDSHAKE in error["nextStep"]
    assert error["delivered"] == "no"
    assert error["retryAfterMs"] > 0


async def test_bye_removes_the_server_and_keeps_the_sessions(
    manager: RunningManager, client: SessionClient, upstream: ScriptedWorkspaceServer
) -> None:
    """At once; a session stays bound, and its calls are told that the server is offline."""
    for body in ({"sessionId": "nobody"}, {}):
        assert await control(manager, "POST", "/bye", body) == (200, {"ok": True})
    assert (await client.call("work")).result["content"]
    await leave(manager, upstream)
    assert await upstream.state() is None
    for _ in range(3):  # also a call whose route was cached
        answer = await client.call("work")
        assert_offline(answer)
        assert answer.headers[headers.WORKSPACE_SOURCE] == "session"
    assert len(upstream.called()) == 1
    assert (await client.ask(names.PING)).result == {}


async def test_after_it_left_no_server_is_started_and_lists_are_the_last_known(
    manager: RunningManager, client: SessionClient, upstream: ScriptedWorkspaceServer
) -> None:
    """The tools stay listed with an issue that says that their server is offline, the handshake among them."""
    before = [one["name"] for one in (await client.ask(names.TOOLS_LIST)).result["tools"]]
    await leave(manager, upstream)
    listed = (await client.ask(names.TOOLS_LIST)).result
    assert [one["name"] for one in listed["tools"]] == before
    (issue,) = listed["_meta"][names.META_ISSUES]
    assert issue["details"].startswith("resolved MCP server is offline: ")
    read = await client.ask("resources/read", {"uri": f"{names.URI_SCHEMA}work"})
    assert read.error["code"] == 47102
    by_handle = {"name": "work", "workspace": (await snapshot_of(client))["workspace"]}
    assert_offline(await client.call(names.CALL_TOOL, by_handle))
    _, status = await control(manager, "GET", "/mcp/status")
    assert status["instances"] == 0


async def test_a_server_that_registers_again_serves_without_a_handshake(
    manager: RunningManager, client: SessionClient, upstream: ScriptedWorkspaceServer
) -> None:
    await leave(manager, upstream)
    assert_offline(await client.call("work"))
    upstream.session_id = "the-next-window"
    await upstream.register()
    assert (await client.call("work")).result["content"]


async def test_a_handshake_after_it_left_starts_a_server_of_the_managers_own(
    manager: RunningManager, http: ClientSession, client: SessionClient, upstream: ScriptedWorkspaceServer
) -> None:
    """One client's handshake counts for all."""
    await leave(manager, upstream)
    assert_offline(await client.call("calculator", {"expression": "6*7"}))
    other = await SessionClient.connect(http, manager.address)
    payload = (await other.handshake(upstream.root)).payload
    assert "calculator" in [tool["name"] for tool in payload["discovery"]["bridgedTools"]]
    assert (await client.call("calculator", {"expression": "6*7"})).payload == {"value": 42}


async def test_where_no_handshake_exists_the_managers_own_server_takes_over(
    manager: RunningManager, http: ClientSession, client: SessionClient, upstream: ScriptedWorkspaceServer
) -> None:
    """A URL that names the project has no handshake tool; the sessions of the other clients wait on."""
    await leave(manager, upstream)
    at_project = StatelessClient(http, f"{manager.address}?cwd={upstream.root}")
    for _ in range(3):
        assert (await at_project.call("calculator", {"expression": "6*7"})).payload == {"value": 42}
        assert_offline(await client.call("calculator", {"expression": "6*7"}))


async def test_a_registered_server_that_is_not_well_is_offline_for_its_sessions(
    manager: RunningManager, client: SessionClient, upstream: ScriptedWorkspaceServer
) -> None:
    """Another server does not take its place, and it serves again once it is well."""
    upstream.is_healthy = False
    other = upstream_of(manager, upstream.root)
    other.port = upstream.port
    await other.heartbeat()  # claims the address, so that the health of both is checked
    await reached(manager, upstream, "unhealthy")
    answer = await client.call("work")
    assert_offline(answer)
    assert answer.refusal["details"]["cause"] == "unhealthy"
    upstream.is_healthy = True
    await reached(manager, upstream, "ready")
    assert (await client.call("work")).result["content"]


async def snapshot_of(client: SessionClient) -> dict[str, Any]:
    """What the handshake resource says."""
    answer = await client.ask("resources/read", {"uri": names.URI_HANDSHAKE})
    text = answer.result["contents"][0]["text"]
    found: dict[str, Any] = json.loads(text.partition("Status snapshot:\n")[2])
    return found


async def test_the_handshake_resource_and_status_know_the_server_that_serves(
    manager: RunningManager, client: SessionClient, upstream: ScriptedWorkspaceServer
) -> None:
    await client.call("work")
    told = await snapshot_of(client)
    assert (told["ready"], told["online"], told["offlineDurationSec"]) == (True, True, None)
    assert told["target"]["sessionId"] == upstream.session_id
    assert told["target"]["workspaceFolders"] == [str(upstream.root)]
    assert told["health"]["ok"]
    assert "nonce" not in told["health"]["data"]
    _, status = await control(manager, "GET", "/mcp/status")
    (session,), (workspace,) = status["sessionDetails"], status["workspaceDetails"]
    assert session["target"]["sessionId"] == upstream.session_id
    assert (session["offlineSince"], workspace["state"]) == (None, "ready")
    one = await shown(manager, upstream)
    assert one is not None
    assert (one["calls"], one["restarts"], one["sources"]) == (1, 0, [])
    assert one["health"]["process"]["alive"]
    assert one["health"]["lastCall"]["outcome"]


async def test_after_it_left_they_say_since_when(
    manager: RunningManager, client: SessionClient, upstream: ScriptedWorkspaceServer
) -> None:
    await control(manager, "POST", "/bye", {"sessionId": upstream.session_id})
    told = await snapshot_of(client)
    assert (told["ready"], told["target"], "health" in told) == (False, None, False)
    assert told["offlineDurationSec"] == 0
    _, status = await control(manager, "GET", "/mcp/status")
    (session,) = status["sessionDetails"]
    assert session["target"] is None
    assert abs(session["offlineSince"] - time.time() * 1000) < 10_000
