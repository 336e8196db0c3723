"""The control plane end to end: port allocation and folder look-ups."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from aiohttp import ClientSession, UnixConnector

from manager.client import Control, ControlRefusal
from support.clients.raw_clients import SessionClient
from support.processes.child_processes import answer_to_script
from support.processes.managers.manager_in_process import RunningManager, make_project
from support.processes.timeouts import within
from support.servers.scripted.scripted_workspace_server import ScriptedWorkspaceServer


@pytest.fixture(params=["socket", "port"])
async def asking(request: pytest.FixtureRequest, manager: RunningManager) -> AsyncIterator[Any]:
    """`POST /allocate` by either way: a function from the message to status and answer."""
    on_port = request.param == "port"
    connector = None if on_port else UnixConnector(str(manager.paths.control_socket))
    base = manager.base if on_port else "http://localhost"
    async with ClientSession(connector=connector) as http:

        async def ask(session: str, preferred: object, **more: object) -> tuple[int, dict[str, Any]]:
            body = {"sessionId": session, "preferredPort": preferred, **more}
            async with http.post(f"{base}/allocate", json=body) as response:
                return response.status, await response.json()

        yield ask


async def test_a_free_port_is_reserved(asking: Any, manager: RunningManager) -> None:
    """Not the manager's own, nor another's, nor a taken one; the same again."""
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        taken = foreign.getsockname()[1]
        status, answer = await asking("s1", taken)
        assert (status, answer["ok"]) == (200, True)
        assert answer["port"] > taken
    assert await asking("s1", taken) == (200, answer)
    other = (await asking("s2", answer["port"]))[1]["port"]
    assert other > answer["port"]
    assert (await asking("s3", manager.port))[1]["port"] != manager.port
    lowest = max(answer["port"], other) + 1
    assert (await asking("s1", 21000, minPort=lowest))[1]["port"] >= lowest


async def test_three_requests_for_a_taken_port_get_three_other_ports(asking: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        held = foreign.getsockname()[1]
        given = {(await asking(f"s{number}", held))[1]["port"] for number in range(3)}
    assert len(given) == 3
    assert held not in given


async def test_a_live_server_gets_its_present_port(
    asking: Any, manager: RunningManager, tmp_path: Path
) -> None:
    """Whatever it asks for; nobody else is given that port."""
    upstream = ScriptedWorkspaceServer(make_project(tmp_path / "proj"), manager.paths.control_socket)
    async with upstream.serving():
        assert (await asking(upstream.session_id, 21000))[1]["port"] == upstream.port
        assert (await asking("other", upstream.port))[1]["port"] > upstream.port


@pytest.mark.parametrize(
    ("session", "preferred", "field"),
    [
        ("", 21000, "sessionId"),
        ("  ", 21000, "sessionId"),
        ("x" * 129, 21000, "sessionId"),
        ("s", "21000", "preferredPort"),
        ("s", True, "preferredPort"),
        ("s", 0, "preferredPort"),
        ("s", 65536, "preferredPort"),
        ("s", 1.5, "preferredPort"),
        ("s", None, "preferredPort"),
    ],
)
async def test_a_malformed_request_is_refused_naming_the_field(
    asking: Any, session: str, preferred: object, field: str
) -> None:
    status, answer = await asking(session, preferred)
    assert (status, answer["ok"], answer["reason"]) == (400, False, "invalid_payload")
    assert answer["field"] == field


async def test_looking_up_a_folder_starts_nothing(
    manager: RunningManager, http: ClientSession, tmp_path: Path
) -> None:
    """Stopped, running, none, no text, no folder; at once."""
    project = make_project(tmp_path.resolve() / "proj", **{"src/a.txt": "a"})
    plain = tmp_path / "plain"
    plain.mkdir()
    connector = UnixConnector(str(manager.paths.control_socket))
    async with ClientSession(connector=connector) as local:

        async def resolve(body: object) -> tuple[int, dict[str, Any]]:
            started = time.monotonic()
            async with local.post("http://localhost/resolve", json=body) as response:
                answer = response.status, await response.json()
            assert time.monotonic() - started < within(1)
            return answer

        status, stopped = await resolve({"cwd": str(project / "src")})
        assert (status, stopped["ok"]) == (200, True)
        match = stopped["match"]
        assert (match["sessionId"], match["host"], match["port"]) == (None, None, None)
        assert (match["state"], match["workspaceFolders"]) == ("stopped", [str(project)])
        client = await SessionClient.connect(http, manager.address)
        payload = (await client.handshake(project)).payload
        match = (await resolve({"cwd": str(project)}))[1]["match"]
        assert (match["workspace"], match["state"]) == (payload["workspace"], "ready")
        assert {name: match[name] for name in payload["target"]} == payload["target"]

        for body, status, reason in [
            ({"cwd": str(plain)}, 404, "not_found"),
            ({}, 400, "missing_cwd"),
            ({"cwd": " "}, 400, "missing_cwd"),
            ({"cwd": 7}, 400, "invalid_cwd"),
            ({"cwd": "relative"}, 400, "invalid_cwd"),
            ({"cwd": str(plain / "missing")}, 400, "invalid_cwd"),
        ]:
            refused = await resolve(body)
            assert (refused[0], refused[1]["ok"], refused[1]["reason"]) == (status, False, reason), body


@pytest.fixture
def ask(manager: RunningManager) -> Any:
    """A question over the socket, as the command line asks it: status and answer."""
    control = Control(manager.paths.control_socket, 20)

    async def asked(target: str, **body: object) -> tuple[int, Any]:
        try:
            return 200, await asyncio.to_thread(control.post, target, body)
        except ControlRefusal as refused:
            return refused.status, (refused.reason, str(refused))

    return asked


async def test_a_server_is_started_and_asked_about_its_tools_and_sources(ask: Any, tmp_path: Path) -> None:
    project = make_project(tmp_path / "proj", **{"src/a.txt": "a"})
    status, found = await ask("/inspect", cwd=str(project / "src"))
    assert (status, found["ok"]) == (200, True)
    assert {"name": "calculator", "state": "callable"}.items() <= found["tools"][0].items()
    assert "builtin" in {source["id"] for source in found["sources"]}
    assert await ask("/calls", cwd=str(project)) == (200, ANY)
    assert await ask("/refresh", cwd=str(project)) == (200, {"ok": True})
    assert await ask("/refresh", cwd=str(project), source="builtin") == (200, {"ok": True})
    assert (await ask("/refresh", cwd=str(project), source="stdio:a&b"))[0] == 404


@pytest.mark.parametrize("target", ["/inspect", "/refresh", "/restart_sources", "/calls"])
async def test_a_folder_without_a_server_is_reported(ask: Any, tmp_path: Path, target: str) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    status, (reason, _) = await ask(target, cwd=str(plain))
    assert (status, reason) == (404, "workspace_not_matched")
    status, (reason, message) = await ask(target, cwd=str(plain / "missing"))
    assert (status, reason) == (404, "invalid_cwd")
    assert "missing" in message


async def test_the_question_for_calls_starts_no_server(
    ask: Any, manager: RunningManager, tmp_path: Path
) -> None:
    status, (reason, _) = await ask("/calls", cwd=str(make_project(tmp_path / "idle")))
    assert (status, reason) == (503, "workspace_server_offline")
    control = Control(manager.paths.control_socket)
    assert (await asyncio.to_thread(control.get, "/list"))["instances"] == []


async def test_an_old_or_offline_server_gives_no_catalog(
    ask: Any, manager: RunningManager, tmp_path: Path
) -> None:
    """Somebody else's server, first alive, then gone."""
    external = ScriptedWorkspaceServer(make_project(tmp_path / "external"), manager.paths.control_socket)
    async with external.serving():
        status, (reason, message) = await ask("/inspect", cwd=str(external.root))
        assert (status, reason) == (503, "workspace_server_offline")
        assert "HTTP 404" in message
    status, (reason, _) = await ask("/refresh", cwd=str(external.root))
    assert (status, reason) == (503, "workspace_server_offline")


async def test_only_the_control_socket_shows_the_managers_path(
    manager: RunningManager, http: ClientSession
) -> None:
    told = await asyncio.to_thread(Control(manager.paths.control_socket).get, "/status")
    assert told["path"] == os.environ["PATH"]
    for target in ("/status", "/mcp/status"):
        async with http.get(f"{manager.base}{target}") as response:
            assert os.environ["PATH"] not in await response.text()


@pytest.mark.skipif(sys.platform != "linux", reason="scripts are confined on Linux")
async def test_a_confined_script_cannot_use_the_control_socket(
    manager: RunningManager, tmp_path: Path
) -> None:
    head = "POST /shutdown HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    answer = await answer_to_script(manager.paths.control_socket, head, tmp_path)
    assert answer.startswith(b"HTTP/1.1 403 ")
    await asyncio.to_thread(Control(manager.paths.control_socket).get, "/status")
