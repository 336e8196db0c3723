"""Admission in front of a small application, over real sockets and through the daemon's own runner."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest
import structlog
from aiohttp import web

from lm_tools_bridge.http_server.connection import MAX_PIPELINED
from lm_tools_bridge.http_server.limits import Limits
from lm_tools_bridge.http_server.request_head import RequestHead
from lm_tools_bridge.protocol import jsonrpc
from manager.admin.control.control_messages import read_body
from manager.guests import UNKNOWN_USERS, ClosedGate, GuestGate
from manager.listener.connection import RefusalLog
from manager.listener.connections import Connections
from manager.listener.pages import OncePerSecond, port_runner, refusal_response
from manager.listener.peer_identity import PeerCheck, SameUser, lookup_works, same_user_check
from manager.listener.runner import Runner
from manager.routing.admission import (
    ANSWER_HEADERS,
    AdmissionRefusal,
    AdmissionRules,
    check_json,
)
from support.http.admission_cases import (
    BODY,
    CASES,
    METHODS_NEVER_SERVED,
    Case,
    Reply,
    allowed_methods,
    exchange,
    iter_routes,
    parse_reply,
    request,
)

NORMAL = Limits(linger_s=0.3, shutdown_s=0.5)
IMPATIENT = Limits(head_s=0.3, body_s=0.3, linger_s=0.3, shutdown_s=0.5)
CAP = 100_000


class Served:
    """A running application: its port, and what its handlers were asked to do."""

    def __init__(self, app: web.Application, executed: list[str]) -> None:
        self.app = app
        self.executed = executed
        self.port = 0
        self.connections: Connections

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def send(self, method: str, path: str, *extra: str, body: bytes | None = None) -> Reply:
        return await exchange(
            self.port, request(method, path, self.host, "Connection: close", *extra, body=body)
        )


def sample_app(executed: list[str], cap: int, body_s: float) -> web.Application:
    async def message(http_request: web.Request) -> web.StreamResponse:
        body = await read_body(http_request, cap, body_s)
        if isinstance(body, AdmissionRefusal):
            return refusal_response(http_request, body)
        problem = check_json(body)
        if problem is not None:
            return refusal_response(http_request, AdmissionRefusal(400, problem, code=jsonrpc.PARSE_ERROR))
        parsed = jsonrpc.parse(body)
        if isinstance(parsed, jsonrpc.Malformed):
            return refusal_response(http_request, AdmissionRefusal(400, parsed.message, code=parsed.code))
        executed.append(f"{http_request.method} {http_request.path}")
        return web.json_response({"served": len(body)})

    async def page(http_request: web.Request) -> web.StreamResponse:
        executed.append(f"{http_request.method} {http_request.path}")
        return web.json_response({"ok": True})

    async def fault(http_request: web.Request) -> web.StreamResponse:
        raise RuntimeError("secret-canary")

    async def slow(_: web.Request) -> web.StreamResponse:
        executed.append("began")
        try:
            return await asyncio.Future()
        finally:
            executed.append("ended")

    async def stream_and_break(http_request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(http_request)
        await response.write(b"begun")
        raise RuntimeError("secret-canary")

    async def too_large(http_request: web.Request) -> web.StreamResponse:
        raise web.HTTPRequestEntityTooLarge(max_size=1, actual_size=2)

    app = web.Application()
    app.router.add_post("/mcp", message)
    app.router.add_delete("/mcp", page)
    app.router.add_post("/w/{workspace_id}/mcp", message)
    app.router.add_post("/allocate", message)
    app.router.add_get("/", page, allow_head=False)
    app.router.add_get("/mcp/status", page, allow_head=False)
    app.router.add_get("/fault", fault, allow_head=False)
    app.router.add_get("/slow", slow, allow_head=False)
    app.router.add_get("/broken", stream_and_break, allow_head=False)
    app.router.add_post("/large", too_large)
    return app


@asynccontextmanager
async def serving(
    limits: Limits = NORMAL,
    peer_check: PeerCheck | None = None,
    cap: int = CAP,
    gate: GuestGate | None = None,
) -> AsyncIterator[Served]:
    executed: list[str] = []
    served = Served(sample_app(executed, cap, limits.body_s), executed)
    sock = socket.create_server(("127.0.0.1", 0))
    served.port = sock.getsockname()[1]
    rules = AdmissionRules.for_ports([served.port], body_cap=cap)
    runner = Runner(lambda: served.app, rules, limits=limits, peer_check=peer_check, gate=gate)
    served.connections = runner.connections
    servers = await runner.listen([sock])
    try:
        yield served
    finally:
        for server in servers:
            server.close()
        await runner.cleanup()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as running:
        yield running


@pytest.fixture
async def impatient() -> AsyncIterator[Served]:
    async with serving(IMPATIENT) as running:
        yield running


def assert_guarded(reply: Reply) -> None:
    for name, _ in ANSWER_HEADERS:
        assert name.lower() in reply.headers
    assert not [name for name in reply.headers if name.startswith("access-control-") or name == "server"]


@pytest.mark.parametrize("method", METHODS_NEVER_SERVED)
async def test_methods_never_served_get_405_with_a_true_allow(method: str, served: Served) -> None:
    for path, allowed in allowed_methods(served.app).items():
        reply = await served.send(method, path)
        assert (reply.status, reply.headers["allow"]) == (405, ", ".join(sorted(allowed)))
        assert_guarded(reply)
        if method != "HEAD":
            assert json.loads(reply.body) == {"error": "Method Not Allowed"}


async def test_unknown_path_is_404_json(served: Served) -> None:
    reply = await served.send("GET", "/nowhere", "Accept: text/html")
    assert (reply.status, json.loads(reply.body)) == (404, {"error": "Not Found"})
    assert_guarded(reply)


@pytest.mark.parametrize(
    "extra",
    [
        "Origin: http://{host}",
        "Referer: http://{host}/mcp/status",
        "Referer: http://{host}",
        "Sec-Fetch-Site: same-origin",
        "Sec-Fetch-Site: none",
        "Content-Encoding: identity",
        "X-Workspace-Cwd: /home/j\u00f6rg",
    ],
)
async def test_own_pages_and_plain_clients_are_served_with_the_guard_headers(
    extra: str, served: Served
) -> None:
    reply = await served.send("POST", "/mcp", extra.format(host=served.host))
    assert reply.status == 200
    assert_guarded(reply)


async def test_other_spellings_of_our_address_are_served(served: Served) -> None:
    for name in ("localhost", "LocalHost", "[::1]"):
        raw = request("GET", "/", f"{name}:{served.port}", "Connection: close")
        assert (await exchange(served.port, raw)).status == 200


async def test_fault_is_500_json_and_its_text_is_not_logged(served: Served) -> None:
    with structlog.testing.capture_logs() as logs:
        reply = await served.send("GET", "/fault")
    assert (reply.status, json.loads(reply.body)) == (500, {"error": "Internal Server Error"})
    assert_guarded(reply)
    [entry] = [entry for entry in logs if entry["event"] == "request failed"]
    assert entry["error"] == "RuntimeError"
    assert "secret-canary" not in repr(logs)


async def test_fault_in_the_middle_of_an_answer_ends_the_connection_uncleanly(served: Served) -> None:
    reply = await served.send("GET", "/broken")
    assert reply.status in (0, 200)
    assert not reply.body.endswith(b"0\r\n\r\n")


async def test_http_error_of_a_handler_becomes_json(served: Served) -> None:
    reply = await served.send("POST", "/large")
    assert (reply.status, json.loads(reply.body)) == (413, {"error": HTTPStatus(413).phrase})


def chunked(path: str, host: str, *chunks: bytes) -> bytes:
    framed = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    return request("POST", path, host, "Transfer-Encoding: chunked", body=framed)


async def test_chunked_body_is_served_and_ends_its_connection(served: Served) -> None:
    reply = await exchange(served.port, chunked("/mcp", served.host, BODY[:7], BODY[7:]))
    assert (reply.status, reply.headers["connection"]) == (200, "close")


async def test_chunked_body_over_the_cap_is_413(served: Served) -> None:
    for path in ("/mcp", "/w/x/mcp", "/allocate"):
        reply = await exchange(served.port, chunked(path, served.host, *[b" " * 10_000] * 20))
        assert reply.status == 413
    assert served.executed == []


@pytest.mark.parametrize("pause", [False, True])
async def test_broken_chunks_are_refused(pause: bool, impatient: Served) -> None:
    """aiohttp's parser answers this one in its own words when nobody reads the body yet."""
    raw = request(
        "POST", "/mcp", impatient.host, "Transfer-Encoding: chunked", body=b"2\r\n{}\r\nzz\r\n{}\r\n"
    )
    begun, rest = (raw[:-8], raw[-8:]) if pause else (b"", raw)
    reader, writer = await asyncio.open_connection("127.0.0.1", impatient.port)
    writer.write(begun)
    if pause:
        await until(lambda: any(one.is_last_by_framing for one in impatient.connections.open))
    writer.write(rest)
    assert parse_reply(await asyncio.wait_for(reader.read(), 3)).status in (400, 408)
    writer.transport.abort()
    assert impatient.executed == []


async def test_request_smuggled_behind_a_chunked_body_is_not_served(served: Served) -> None:
    raw = chunked("/mcp", served.host, BODY) + request("DELETE", "/mcp", "evil.example")
    await exchange(served.port, raw)
    assert "DELETE /mcp" not in served.executed


@pytest.mark.parametrize("sent", [b"", b"GE", b"POST /mcp HTTP/1.1\r\nHost: 127"])
async def test_head_that_does_not_arrive_ends_at_its_deadline(sent: bytes, impatient: Served) -> None:
    reply = await exchange(impatient.port, sent, within=2.0)
    assert reply.status == (408 if sent else 0)


async def test_head_that_trickles_does_not_win_time(impatient: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", impatient.port)
    writer.write(b"GET / HTTP/1.1\r\n")
    loop = asyncio.get_running_loop()
    begin = loop.time()
    ended = asyncio.ensure_future(reader.read())
    while not ended.done() and loop.time() < begin + 3:
        writer.write(b"X: y\r\n")
        await asyncio.wait([ended], timeout=0.05)
    assert parse_reply(await ended).status == 408
    assert loop.time() - begin < 1.5
    writer.transport.abort()


async def test_second_head_on_a_connection_has_the_same_deadline(impatient: Served) -> None:
    """The idle time between two requests is longer, but not once a head has begun."""
    reply = await exchange(impatient.port, request("GET", "/", impatient.host) + b"GET /mc", within=2.0)
    assert reply.raw.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408" in reply.raw


async def test_body_that_does_not_arrive_is_408_and_closed(impatient: Served) -> None:
    for path in ("/mcp", "/w/x/mcp", "/allocate"):
        raw = request("POST", path, impatient.host, "Content-Length: 500", body=b'{"jsonrpc"')
        reply = await exchange(impatient.port, raw, within=3.0)
        assert (reply.status, reply.headers["connection"]) == (408, "close")
    assert impatient.executed == []


async def test_idle_connection_is_closed_after_its_keepalive() -> None:
    async with serving(Limits(keepalive_s=0.2)) as served:
        reply = await exchange(served.port, request("GET", "/", served.host), within=3.0)
        assert reply.status == 200


async def test_pipelined_requests_are_judged_one_by_one_and_answered_in_order(served: Served) -> None:
    good = request("POST", "/mcp", served.host)
    raw = good + good + request("POST", "/mcp", "evil.example") + good
    reply = await exchange(served.port, raw)
    statuses = [part[:3] for part in reply.raw.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"200", b"421"]
    assert len(served.executed) == 2


async def test_head_split_at_every_byte_is_served(served: Served) -> None:
    raw = request("POST", "/mcp", served.host, "Connection: close")
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for index in range(len(raw)):
        writer.write(raw[index : index + 1])
        await asyncio.sleep(0)
    assert parse_reply(await reader.read()).status == 200
    writer.close()
    await writer.wait_closed()


async def test_pipelining_without_end_is_cut_off() -> None:
    async with serving(Limits(shutdown_s=0.2)) as served:
        flood = request("GET", "/slow", served.host) * (MAX_PIPELINED // 20)
        assert (await exchange(served.port, flood)).raw == b""


async def test_connections_over_the_cap_are_refused_until_others_close() -> None:
    async with serving(Limits(connections=2)) as served:
        pairs = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(2)]
        reply = await served.send("GET", "/")
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        for _, writer in pairs:
            writer.close()
            await writer.wait_closed()
        await until(lambda: not served.connections.open)
        assert (await served.send("GET", "/")).status == 200


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


async def test_peer_of_another_user_is_refused_before_the_body() -> None:
    async with serving(peer_check=lambda _: False) as served:
        for method, path in iter_routes(served.app):
            begun = request(method, path, served.host, "Content-Length: 500", body=b"{")
            reply = await exchange(
                served.port, begun if method == "POST" else request(method, path, served.host)
            )
            assert reply.status == 403
        assert served.executed == []


async def test_a_failing_check_admits_no_request() -> None:
    def broken(_: asyncio.BaseTransport) -> bool:
        raise OSError("no lookup")

    async with serving(peer_check=broken) as served:
        assert (await served.send("GET", "/")).status == 500
        assert served.executed == []


async def test_the_peer_is_checked_once_for_each_connection() -> None:
    checked: list[asyncio.BaseTransport] = []

    def check(transport: asyncio.BaseTransport) -> bool:
        checked.append(transport)
        return True

    async with serving(peer_check=check) as served:
        first = request("GET", "/", served.host)
        await exchange(served.port, first * 2 + request("GET", "/", served.host, "Connection: close"))
        assert len(checked) == 1
        await served.send("GET", "/")
        assert len(checked) == 2


class CountingGate(ClosedGate):
    """Lets the user's own connections pass; counts how often it is asked about connections."""

    asked = 0

    def asks(self, *, is_own: bool) -> bool:
        self.asked += 1
        return not is_own


async def test_the_users_own_connections_are_asked_about_tokens_once() -> None:
    gate = CountingGate()
    async with serving(peer_check=lambda _: True, gate=gate) as served:
        first = request("GET", "/", served.host)
        await exchange(served.port, first * 5 + request("GET", "/", served.host, "Connection: close"))
    assert gate.asked == 1


async def test_where_tokens_are_required_and_nothing_can_check_them_nobody_passes() -> None:
    async with serving(peer_check=lambda _: True, gate=ClosedGate()) as served:
        token = "Authorization: Bearer lmtb_secret"
        for method, path in iter_routes(served.app):
            assert (await exchange(served.port, request(method, path, served.host, token))).status == 403
        assert served.executed == []


class WordGate(ClosedGate):
    """Lets requests pass that say the word."""

    def refuse(self, head: RequestHead, session: str | None) -> AdmissionRefusal | None:
        return None if (b"X-Word", b"please") in head.headers else super().refuse(head, session)


async def test_connections_of_others_need_a_proof_with_every_request() -> None:
    async with serving(peer_check=lambda _: False, gate=WordGate()) as served:
        good = request("GET", "/", served.host, "X-Word: please")
        last = request("GET", "/", served.host, "X-Word: please", "Connection: close")
        assert (await exchange(served.port, last)).status == 200
        for method, path in iter_routes(served.app):
            assert (await exchange(served.port, request(method, path, served.host))).status == 403
        count = len(served.executed)
        await exchange(served.port, good + request("GET", "/", served.host))
        assert len(served.executed) == count + 1, "the second request of the connection had none"


@pytest.mark.parametrize(("uid", "status"), [(7, 200), (8, 403), (0, 403), (None, 403)])
async def test_an_unknown_owner_is_not_let_in(uid: int | None, status: int) -> None:
    """A socket that was closed right after the call has no owner any more, and some systems tell none."""
    async with serving(peer_check=SameUser(lambda local, remote: uid, 7)) as served:
        assert (await served.send("GET", "/")).status == status


async def test_without_a_lookup_nobody_is_known_and_the_refusal_says_why() -> None:
    async with serving(peer_check=same_user_check(None), gate=ClosedGate(UNKNOWN_USERS)) as served:
        for method, path in iter_routes(served.app):
            reply = await exchange(served.port, request(method, path, served.host))
            assert reply.status == 403
            assert UNKNOWN_USERS.encode() in reply.raw
        assert served.executed == []


def test_lookup_is_tried_on_a_connection_of_our_own() -> None:
    seen: list[tuple[tuple[str, int], tuple[str, int]]] = []

    def owner(local: tuple[str, int], remote: tuple[str, int]) -> int | None:
        seen.append((local, remote))
        return 7

    assert lookup_works(owner, 7)
    assert not lookup_works(owner, 8)
    assert not lookup_works(lambda local, remote: None, 7)
    assert all(local[0] == remote[0] == "127.0.0.1" and local != remote for local, remote in seen)


async def test_handler_is_cancelled_when_its_caller_goes() -> None:
    async with serving() as served:
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(request("GET", "/slow", served.host))
        await until(lambda: served.executed == ["began"])
        writer.transport.abort()
        await until(lambda: served.executed == ["began", "ended"])


async def test_refusals_write_one_log_line_per_second_without_content(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with structlog.testing.capture_logs() as logs, caplog.at_level(logging.DEBUG):
        for _ in range(20):
            await exchange(served.port, b"\x16\x03\x01secret-canary")
            await exchange(served.port, request("GET", "/secret-canary", "evil.example"))
    assert 1 <= len(logs) <= 3
    assert "secret-canary" not in repr(logs) + caplog.text


def test_server_log_passes_one_record_per_second() -> None:
    clock = iter((0.0, 0.5, 0.999, 1.0, 1.5, 2.5))
    only = OncePerSecond(lambda: next(clock))
    record = logging.makeLogRecord({})
    assert [only.filter(record) for _ in range(6)] == [True, False, False, True, False, True]


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "*"])
def test_route_that_would_escape_the_405_cannot_be_served(method: str) -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.router.add_route(method, "/", page)
    with pytest.raises(ValueError, match="name its methods"):
        port_runner(app, Connections(AdmissionRules.for_ports([1]), NORMAL, RefusalLog()))


@pytest.mark.skipif(sys.platform == "win32", reason="needs uvloop")
async def test_gate_needs_nothing_but_asyncio_from_the_loop() -> None:
    import uvloop

    def in_uvloop() -> int:
        async def go() -> int:
            async with serving() as served:
                good = request("POST", "/mcp", served.host)
                reply = await exchange(served.port, good * 2 + b"\x16\x03")
                return reply.raw.count(b"HTTP/1.1 200") * 10 + reply.raw.count(b"HTTP/1.1 400")

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(go())

    assert await asyncio.to_thread(in_uvloop) == 21


async def test_body_over_the_cap_does_not_stay_in_memory(served: Served) -> None:
    """The chunks are dropped as soon as the cap is passed; the rest is read and thrown away."""
    raw = chunked("/mcp", served.host, *[b" " * 65_536] * 128)

    def send() -> bytes:
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            with contextlib.suppress(ConnectionError):
                client.sendall(raw)
            return client.recv(12)

    tracemalloc.start()
    try:
        assert await asyncio.to_thread(send) == b"HTTP/1.1 413"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(raw) / 4


SEEN_BY_THE_GATE_ALONE = {"HTTP/2.0 on the line"}  # aiohttp takes it for 1.1, which does no harm


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name not in SEEN_BY_THE_GATE_ALONE], ids=lambda case: case.name
)
async def test_admission_holds_on_a_plain_aiohttp_site(case: Case) -> None:
    """A plain aiohttp site: what its parser lets through, the middleware refuses by itself."""
    executed: list[str] = []
    app = sample_app(executed, CAP, NORMAL.body_s)
    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    limits = Limits(keepalive_s=0.2, linger_s=0.2)
    runner = port_runner(app, Connections(AdmissionRules.for_ports([port]), limits, RefusalLog()))
    await runner.setup()
    await web.SockSite(runner, sock).start()
    try:
        for method, path in iter_routes(app):
            if case.method in (None, method):
                reply = await exchange(port, case.build(method, path, f"127.0.0.1:{port}"))
                assert reply.status in case.statuses | {400}
                assert "charset=utf-8" in reply.headers["content-type"]
    finally:
        await runner.cleanup()
    assert executed == []
