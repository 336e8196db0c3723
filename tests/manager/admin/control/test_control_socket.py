"""Tests the control socket over a real Unix socket, with the real tables behind it."""

from __future__ import annotations

import asyncio
import io
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from lm_tools_bridge.machine.peer_uid import unix_peer_uid
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.internal.registration import Allocate, Heartbeat
from manager.admin.control.control_messages import MAX_BODY
from manager.admin.control.control_socket import allocate_routes, make_control_app
from manager.admin.control.services import ListedInstance, ResolvedWorkspace, ServerQuestion, Status
from manager.disk.folder import CwdProblem, CwdProblemKind
from manager.listener.control_listener import ControlListener
from manager.routing.state.port_leases import PortExhausted, PortLeases
from manager.routing.state.registrations import HeartbeatOutcome, Registrations
from manager.startup.port import is_bindable

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs unix sockets")

OWN_PORT = 29999


class Daemon:
    """The services over the pure tables, with this process as the only one of the user."""

    port = OWN_PORT

    def __init__(self) -> None:
        self.leases = PortLeases()
        self.registrations = Registrations()
        self.uid = os.getuid()
        self.admits_port = True
        self.path: str | None = "/usr/bin"
        self.stopped: list[tuple[str | None, bool]] = []
        self.renewed: list[str] = []
        self.asked: list[tuple[str, str, str | None]] = []
        self.answer: bytes | Refusal = b'{"ok":true}'

    def peer_allowed(self, transport: asyncio.BaseTransport | None) -> bool:
        sock = transport.get_extra_info("socket") if transport else None
        if sock is not None and sock.family == socket.AF_UNIX:
            return unix_peer_uid(sock) == self.uid
        return self.admits_port

    def owns_process(self, pid: int) -> bool:
        return pid == os.getpid()

    def status(self) -> Status:
        return Status(
            version="1.2.3",
            pid=os.getpid(),
            address="http://127.0.0.1:1/mcp",
            now=round(time.time() * 1000),
            path=self.path,
        )

    def list_instances(self) -> Iterable[ListedInstance]:
        return [
            ListedInstance(
                session_id=record.session_id,
                workspace="a-12345678",
                pid=record.pid,
                workspace_folders=record.workspace_folders,
                workspace_file=record.workspace_file,
                host=record.host,
                port=record.port,
                last_seen=1,
                started_at=2,
                owner="external",
                kind=record.kind,
                state=record.state.value,
            )
            for record in self.registrations.records()
        ]

    def allocate(self, message: Allocate) -> int | PortExhausted:
        record = self.registrations.get(message.session_id)
        return self.leases.allocate(
            message.session_id,
            message.start,
            time.monotonic(),
            in_use={record.port for record in self.registrations.records()},
            own_port=self.port,
            bindable=is_bindable,
            present=record.port if record else None,
        )

    async def heartbeat(self, message: Heartbeat) -> HeartbeatOutcome:
        self.leases.release(message.session_id)
        return self.registrations.heartbeat(message, time.monotonic(), lambda: "the secret")

    def renew(self, session_id: str) -> bool:
        self.renewed.append(session_id)
        return self.registrations.renew(session_id, time.monotonic())

    def bye(self, session_id: str) -> None:
        self.leases.release(session_id)
        self.registrations.bye(session_id)

    async def resolve(self, cwd: str) -> ResolvedWorkspace | CwdProblem | None:
        if not cwd.startswith("/"):
            return CwdProblem(CwdProblemKind.RELATIVE)
        if cwd == "/stopped":
            return ResolvedWorkspace(
                session_id=None,
                workspace="stopped-1",
                host=None,
                port=None,
                workspace_folders=("/stopped",),
                workspace_file=None,
                state="stopped",
            )
        record = self.registrations.for_root(cwd)
        if record is None:
            return None
        return ResolvedWorkspace(
            session_id=record.session_id,
            workspace="a-12345678",
            host=record.host,
            port=record.port,
            workspace_folders=record.workspace_folders,
            workspace_file=record.workspace_file,
            state=record.state.value,
        )

    async def ready(self, cwd: str) -> Refusal | None:
        return self.answer if isinstance(self.answer, Refusal) else None

    async def ask_server(
        self, cwd: str, ask: ServerQuestion, source: str | None, *, starts: bool = True
    ) -> bytes | Refusal:
        self.asked.append((cwd, ask, source))
        return self.answer

    async def ask_host(self, cwd: str, target: str, members: Mapping[str, object]) -> bytes | Refusal | None:
        return None

    def shutdown(self, reason: str | None, *, keep_servers: bool) -> None:
        self.stopped.append((reason, keep_servers))


Answer = tuple[int, dict[str, Any]]


class Socket:
    """A client on the control socket; bodies are checked to be JSON."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.http = http

    async def get(self, path: str) -> Answer:
        return await self.send("GET", path)

    async def post(self, path: str, body: object) -> Answer:
        return await self.send("POST", path, json.dumps(body).encode())

    async def send(
        self, method: str, path: str, body: bytes | io.BytesIO | AsyncIterator[bytes] | None = None
    ) -> Answer:
        async with self.http.request(method, path, data=body) as response:
            assert response.content_type == "application/json"
            answer = await response.json()
            assert answer["ok"] is (response.status == 200)
            return response.status, answer


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


@pytest.fixture
async def control(daemon: Daemon, tmp_path: Path) -> AsyncIterator[Socket]:
    path = tmp_path / "control.sock"
    listener = ControlListener(
        path, daemon, lambda renewals: web.AppRunner(make_control_app(daemon, renewals))
    )
    try:
        await listener.open()
        connector = aiohttp.UnixConnector(str(path), limit=100)  # below the backlog of a socket
        async with aiohttp.ClientSession("http://localhost", connector=connector) as http:
            yield Socket(http)
    finally:
        await listener.close()


def beat(session_id: str = "s1", **members: Any) -> dict[str, Any]:
    return {
        "sessionId": session_id,
        "pid": os.getpid(),
        "workspaceFolders": ["/ws/a"],
        "host": "127.0.0.1",
        "port": 21100,
        "nonce": f"nonce of {session_id}",
        "kind": "workspace-server",
    } | members


async def test_health_and_status_identify_the_manager(control: Socket) -> None:
    assert await control.get("/health") == (200, {"ok": True})
    status, body = await control.get("/status")
    assert status == 200
    assert abs(body.pop("now") - time.time() * 1000) < 60_000
    assert body == {
        "ok": True,
        "version": "1.2.3",
        "pid": os.getpid(),
        "address": "http://127.0.0.1:1/mcp",
        "prefix": None,
        "startedBy": None,
        "startedAt": None,
        "path": "/usr/bin",
    }


@pytest.mark.parametrize("path", [None, os.fsdecode(b"/opt/\xff")])
async def test_status_tells_whatever_path_there_is(control: Socket, daemon: Daemon, path: str | None) -> None:
    daemon.path = path
    assert (await control.get("/status"))[1]["path"] == path


async def test_heartbeat_registers_and_list_shows_it_without_secrets(control: Socket) -> None:
    status, body = await control.post("/heartbeat", beat(workspaceFile="/ws/x.code-workspace"))
    assert status == 200
    assert body == {"ok": True, "ttlMs": 2500, "heartbeatMs": 1000, "secret": "the secret"}
    again = await control.post("/heartbeat", beat(workspaceFile="/ws/x.code-workspace"))
    assert again == (200, {"ok": True, "ttlMs": 2500, "heartbeatMs": 1000})
    shown = {
        "sessionId": "s1",
        "workspace": "a-12345678",
        "pid": os.getpid(),
        "workspaceFolders": ["/ws/a"],
        "workspaceFile": "/ws/x.code-workspace",
        "host": "127.0.0.1",
        "port": 21100,
        "lastSeen": 1,
        "startedAt": 2,
        "owner": "external",
        "kind": "workspace-server",
        "state": "starting",
    }
    assert await control.get("/list") == (200, {"ok": True, "instances": [shown]})


async def test_old_shape_is_answered_without_a_secret(control: Socket) -> None:
    old = beat()
    del old["nonce"], old["kind"]
    status, body = await control.post("/heartbeat", old)
    assert (status, "secret" in body) == (200, False)
    _, listed = await control.get("/list")
    assert [instance["kind"] for instance in listed["instances"]] == ["editor"]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"port": "48000"}, "port"),
        ({"host": "10.0.0.9"}, "host"),
        ({"workspaceFolders": []}, "workspaceFolders"),
        ({"port": OWN_PORT}, "port"),
        ({"pid": 1}, "pid"),
    ],
)
async def test_bad_heartbeat_is_refused_and_an_older_record_stays(
    control: Socket, daemon: Daemon, members: dict[str, Any], field: str
) -> None:
    status, body = await control.post("/heartbeat", beat(**members))
    assert (status, body["reason"], body["field"]) == (400, "invalid_payload", field)
    assert daemon.registrations.records() == ()
    await control.post("/heartbeat", beat())
    before = daemon.registrations.records()
    await control.post("/heartbeat", beat(**members))
    assert daemon.registrations.records() == before


async def test_bye_removes_instance_and_reservation_and_accepts_any_id(
    control: Socket, daemon: Daemon
) -> None:
    await control.post("/heartbeat", beat())
    await control.post("/allocate", {"sessionId": "s2", "preferredPort": 12000})
    for body in ({"sessionId": "s1"}, {"sessionId": "s2"}, {"sessionId": "nobody"}, {}):
        assert await control.post("/bye", body) == (200, {"ok": True})
    assert daemon.registrations.records() == ()
    assert daemon.leases.current() == ()


async def test_allocation_is_renewed_then_ended_by_the_heartbeat(control: Socket, daemon: Daemon) -> None:
    ask = {"sessionId": "s1", "preferredPort": 12000}
    status, body = await control.post("/allocate", ask)
    assert status == 200
    first = body["port"]
    assert await control.post("/allocate", ask) == (200, {"ok": True, "port": first})
    await control.post("/heartbeat", beat(port=first))
    assert daemon.leases.current() == ()
    # now it lives there, whatever it asks for; and nobody else gets that port
    assert (await control.post("/allocate", ask | {"minPort": first + 1}))[1]["port"] == first
    other = {"sessionId": "s2", "preferredPort": first}
    assert (await control.post("/allocate", other))[1]["port"] > first


async def test_a_thousand_parallel_allocations_get_different_ports(control: Socket) -> None:
    answers = await asyncio.gather(
        *(control.post("/allocate", {"sessionId": f"s{n}", "preferredPort": 12000}) for n in range(1000))
    )
    assert {status for status, _ in answers} == {200}
    assert len({body["port"] for _, body in answers}) == 1000


@pytest.mark.parametrize("listening", [True, False])
@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
async def test_port_of_another_process_is_never_allocated(
    control: Socket, listening: bool, address: str
) -> None:
    with socket.socket() as foreign:
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        foreign.bind((address, 0))
        if listening:
            foreign.listen()
        held = foreign.getsockname()[1]
        answers = await asyncio.gather(
            *(control.post("/allocate", {"sessionId": name, "preferredPort": held}) for name in "abc")
        )
    ports = {body["port"] for _, body in answers}
    assert len(ports) == 3
    assert min(ports) > held


async def test_no_port_left_is_a_conflict(control: Socket) -> None:
    await control.post("/heartbeat", beat(port=65535))
    answer = await control.post("/allocate", {"sessionId": "s2", "preferredPort": 65535})
    assert answer == (409, {"ok": False, "reason": "port_exhausted"})


async def test_bad_allocation_names_the_field(control: Socket) -> None:
    status, body = await control.post("/allocate", {"sessionId": "s1", "preferredPort": True})
    assert (status, body["reason"], body["field"]) == (400, "invalid_payload", "preferredPort")


async def test_resolve_finds_what_is_ready(control: Socket, daemon: Daemon) -> None:
    await control.post("/heartbeat", beat())
    assert await control.post("/resolve", {"cwd": "/ws/a"}) == (404, {"ok": False, "reason": "not_found"})
    record = daemon.registrations.records()[0]
    daemon.registrations.health_answered(record, record.nonce)
    match = {
        "sessionId": "s1",
        "workspace": "a-12345678",
        "host": "127.0.0.1",
        "port": 21100,
        "workspaceFolders": ["/ws/a"],
        "workspaceFile": None,
        "state": "ready",
    }
    assert await control.post("/resolve", {"cwd": "/ws/a"}) == (200, {"ok": True, "match": match})


async def test_resolve_shows_a_stopped_workspace_without_an_address(control: Socket) -> None:
    _, body = await control.post("/resolve", {"cwd": "/stopped"})
    match = body["match"]
    assert (match["sessionId"], match["host"], match["port"], match["state"]) == (None, None, None, "stopped")


@pytest.mark.parametrize("ask", ["inspect", "refresh", "restart_sources", "calls"])
@pytest.mark.parametrize(
    ("named", "source"), [({}, None), ({"source": "stdio:gh"}, "stdio:gh"), ({"source": 7}, None)]
)
async def test_questions_to_a_server_are_passed_on_with_the_source(
    control: Socket, daemon: Daemon, ask: str, named: dict[str, Any], source: str | None
) -> None:
    daemon.answer = b'{"ok": true, "unknown": [1.50]}'
    assert await control.post(f"/{ask}", {"cwd": "/ws/a", **named}) == (200, {"ok": True, "unknown": [1.5]})
    assert daemon.asked == [("/ws/a", ask, source)]


async def test_a_server_that_runs_is_ready(control: Socket, daemon: Daemon) -> None:
    assert await control.post("/ready", {"cwd": "/ws/a"}) == (200, {"ok": True})


async def test_an_unknown_source_is_not_found(control: Socket, daemon: Daemon) -> None:
    daemon.answer = b'{"ok": false}'
    answer = await control.post("/refresh", {"cwd": "/ws/a", "source": "stdio:gone"})
    assert answer == (404, {"ok": False, "reason": "unknown_source"})


@pytest.mark.parametrize("ask", ["inspect", "refresh", "restart_sources", "calls", "ready"])
@pytest.mark.parametrize(
    ("reason", "status"),
    [(Reason.WORKSPACE_SERVER_OFFLINE, 503), (Reason.WORKSPACE_NOT_MATCHED, 404), (Reason.INVALID_CWD, 404)],
)
async def test_a_server_that_cannot_be_asked_is_refused_with_why(
    control: Socket, daemon: Daemon, ask: str, reason: Reason, status: int
) -> None:
    daemon.answer = Refusal(reason, "so it is")
    answered, body = await control.post(f"/{ask}", {"cwd": "/ws/a"})
    assert (answered, body["reason"], body["message"]) == (status, reason.word, "so it is")


@pytest.mark.parametrize("ask", ["inspect", "refresh", "restart_sources", "calls", "ready"])
@pytest.mark.parametrize(("cwd", "reason"), [(7, "invalid_cwd"), (" ", "missing_cwd")])
async def test_a_question_without_a_folder_is_refused(
    control: Socket, daemon: Daemon, ask: str, cwd: object, reason: str
) -> None:
    status, body = await control.post(f"/{ask}", {"cwd": cwd})
    assert (status, body["reason"], daemon.asked) == (400, reason, [])


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({}, "missing_cwd"),
        ({"cwd": ""}, "missing_cwd"),
        ({"cwd": 7}, "invalid_cwd"),
        ({"cwd": "x"}, "invalid_cwd"),
    ],
)
async def test_resolve_refuses_a_cwd_that_is_none(control: Socket, payload: object, reason: str) -> None:
    status, body = await control.post("/resolve", payload)
    assert (status, body["reason"]) == (400, reason)


async def test_paths_that_are_no_unicode_cross_the_socket(control: Socket) -> None:
    """PEP 383: a path may hold bytes that are no UTF-8."""
    odd = os.fsdecode(b"/ws/\xff")
    assert (await control.post("/heartbeat", beat(workspaceFolders=[odd])))[0] == 200
    _, body = await control.get("/list")
    assert body["instances"][0]["workspaceFolders"] == [odd]


async def test_shutdown_is_passed_on(control: Socket, daemon: Daemon) -> None:
    body = {"reason": "upgrade", "expectedVersion": "1.2.3", "keepServers": True}
    assert await control.post("/shutdown", body) == (200, {"ok": True})
    assert await control.post("/shutdown", {}) == (200, {"ok": True})
    assert daemon.stopped == [("upgrade", True), (None, False)]


async def test_shutdown_of_another_version_is_refused(control: Socket, daemon: Daemon) -> None:
    answer = await control.post("/shutdown", {"expectedVersion": "1.2.4"})
    assert answer == (409, {"ok": False, "reason": "version_mismatch", "version": "1.2.3"})
    assert daemon.stopped == []


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/", (404, "not_found")),
        ("POST", "/register", (404, "not_found")),
        ("GET", "/health/", (404, "not_found")),
        ("POST", "/health", (405, "method_not_allowed")),
        ("GET", "/allocate", (405, "method_not_allowed")),
        ("DELETE", "/list", (405, "method_not_allowed")),
        ("GET", "/shutdown", (405, "method_not_allowed")),
        ("GET", "/inspect", (405, "method_not_allowed")),
        ("GET", "/refresh", (405, "method_not_allowed")),
        ("GET", "/calls", (405, "method_not_allowed")),
    ],
)
async def test_anything_else_is_refused_in_the_same_shape(
    control: Socket, method: str, path: str, expected: tuple[int, str]
) -> None:
    status, body = await control.send(method, path)
    assert (status, body["reason"]) == expected


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/bye", b""),
        ("/bye", b"[]"),
        ("/bye", b"null"),
        ("/bye", b"7"),
        ("/bye", b'"x"'),
        ("/bye", b"{"),
        ("/bye", b"{}x"),
        ("/bye", b"\xff\xfe"),
        ("/bye", b'{"a":"\xff"}'),
        ("/bye", b"[" * 200_000),
        ("/bye", b"9" * 9999),
        # one function reads the bodies; each route must ask it
        ("/allocate", b"[]"),
        ("/heartbeat", b"[]"),
        ("/resolve", b"[]"),
        ("/ready", b"[]"),
        ("/inspect", b"[]"),
        ("/refresh", b"[]"),
        ("/restart_sources", b"[]"),
        ("/calls", b"[]"),
        ("/shutdown", b"[]"),
    ],
)
async def test_body_that_is_no_object_is_refused(
    control: Socket, daemon: Daemon, path: str, body: bytes
) -> None:
    assert await control.send("POST", path, body) == (400, {"ok": False, "reason": "invalid_json"})
    assert daemon.stopped == []


async def test_body_above_the_cap_is_refused(control: Socket) -> None:
    """One MiB is the cap, whatever the application's own one is."""
    for padding, expected in ((MAX_BODY - 30, 200), (MAX_BODY, 413)):
        body = io.BytesIO(json.dumps({"padding": "x" * padding}).encode())
        assert (await control.send("POST", "/bye", body))[0] == expected
    assert await control.get("/health") == (200, {"ok": True})


async def test_body_that_does_not_come_is_not_waited_for(
    control: Socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.admin.control.control_messages.BODY_S", 0.05)

    async def stalled() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    async with asyncio.timeout(5):
        answer = await control.send("POST", "/bye", stalled())
    assert answer == (408, {"ok": False, "reason": "body_too_late"})
    assert await control.get("/health") == (200, {"ok": True})


async def test_another_user_is_refused_on_every_route(control: Socket, daemon: Daemon) -> None:
    """The peer's uid is checked on every route."""
    daemon.uid += 1
    refused = (403, {"ok": False, "reason": "forbidden"})
    for path in ("/health", "/status", "/list", "/unknown"):
        assert await control.get(path) == refused
    for path in ("/heartbeat", "/allocate", "/shutdown"):
        assert await control.post(path, beat()) == refused
    assert daemon.registrations.records() == ()
    assert daemon.stopped == []


@pytest.fixture
async def tcp(daemon: Daemon) -> AsyncIterator[aiohttp.ClientSession]:
    """The port's application, with nothing on it but the one route."""
    app = web.Application()
    app.add_routes(allocate_routes(daemon))
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:
            yield http
    finally:
        await runner.cleanup()


async def test_allocate_on_the_port_shares_the_table(tcp: aiohttp.ClientSession, control: Socket) -> None:
    _, first = await control.post("/allocate", {"sessionId": "a", "preferredPort": 12000})
    async with tcp.post("/allocate", json={"sessionId": "b", "preferredPort": first["port"]}) as response:
        second = await response.json()
        assert (response.status, sorted(second)) == (200, ["ok", "port"])
    assert second["port"] > first["port"]


async def test_allocate_on_the_port_refuses_as_on_the_socket(
    tcp: aiohttp.ClientSession, daemon: Daemon
) -> None:
    async with tcp.post("/allocate", json={"sessionId": "b", "preferredPort": "1"}) as response:
        assert (response.status, (await response.json())["field"]) == (400, "preferredPort")
    async with tcp.get("/allocate") as response:
        assert (response.status, response.headers["Allow"]) == (405, "POST")
    ask = {"sessionId": "b", "preferredPort": 12000}
    daemon.admits_port = False
    async with tcp.post("/allocate", json=ask) as response:
        assert (response.status, await response.json()) == (403, {"ok": False, "reason": "forbidden"})
    assert daemon.leases.current() == ()


async def test_an_equal_heartbeat_renews_and_another_one_is_checked_again(
    control: Socket, daemon: Daemon
) -> None:
    """The answer is the same. Only a server that can serve is renewed: this one was not confirmed at first."""
    await control.post("/heartbeat", beat())
    (record,) = daemon.registrations.records()
    daemon.registrations.health_answered(record, record.nonce)
    renewed = await control.post("/heartbeat", beat(lastSeen=5))
    assert renewed == (200, {"ok": True, "ttlMs": 2500, "heartbeatMs": 1000})
    assert daemon.renewed == [record.session_id]
    assert (await control.post("/heartbeat", beat(port=21222)))[0] == 200
    assert (await control.post("/heartbeat", beat(pid=1)))[0] == 400
    assert daemon.renewed == [record.session_id]
    assert [one.port for one in daemon.registrations.records()] == [21222]
