"""The pool: verification, choice of the connection, and whether a failed call may have been delivered."""

from __future__ import annotations

import asyncio
import json
import os
import socket

import pytest
from aiohttp import web

from manager.upstream.failures import Blame, UpstreamFailure
from support.processes.timeouts import GUARD_S

BOUND = GUARD_S
LIMIT = 1024 * 1024
HEALTH = b"GET /mcp/health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n"
SECRET = b"s3cret-of-the-call"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def call(pool, body: bytes = b'{"id":1}') -> bytes:
    headers = ((b"Content-Type", b"application/json"), (b"X-Secret", SECRET))
    async with asyncio.timeout(BOUND):
        return await (await pool.request(b"POST", b"/mcp", headers, body)).read(LIMIT)


async def until(condition) -> None:
    async with asyncio.timeout(BOUND):
        while not condition():
            await asyncio.sleep(0)


async def serving(peer) -> None:
    """Identify as the right server and answer until the client closes."""
    await peer.identify()
    while True:
        await peer.request()
        await peer.send(OK)


async def test_connection_is_verified_once_and_then_reused(serve, pool_to):
    server = await serve(serving)
    pool = pool_to(server.port)
    assert [await call(pool) for _ in range(3)] == [b"ok"] * 3
    assert (len(server.peers), pool.idle_count, pool.in_use) == (1, 1, 0)
    received = bytes(server.peers[0].received)
    assert received.startswith(HEALTH % server.port + b"POST /mcp HTTP/1.1\r\n")
    assert (received.count(b"GET /mcp/health"), received.count(b"POST /mcp ")) == (1, 3)


async def test_newest_idle_connection_is_used_first(serve, pool_to):
    server = await serve(serving)
    pool = pool_to(server.port)
    await asyncio.gather(call(pool), call(pool))
    assert (len(server.peers), pool.idle_count) == (2, 2)
    before = [len(peer.received) for peer in server.peers]
    for _ in range(5):
        await call(pool)
    grown = [len(peer.received) > size for peer, size in zip(server.peers, before, strict=True)]
    assert sorted(grown) == [False, True]


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\nthe-wrong-instance",
            "identity_mismatch",
            id="wrong-nonce",
        ),
        pytest.param(
            b"HTTP/1.1 401 No\r\nContent-Length: 18\r\n\r\nthe-right-instance",
            "identity_mismatch",
            id="wrong-status",
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 70_000, "identity_mismatch", id="endless-answer"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", "malformed_response", id="other-protocol"),
    ],
)
async def test_another_process_on_the_port_never_gets_a_byte_of_a_call(serve, pool_to, answer, cause):
    async def other_program(peer):
        await peer.request()
        await peer.send(answer)
        await peer.disconnect()

    server = await serve(other_program)
    pool = pool_to(server.port)
    with pytest.raises(UpstreamFailure) as failure:
        await call(pool)
    assert (failure.value.blame, failure.value.cause) == (Blame.NOT_DELIVERED, cause)
    await server.finished()
    assert [bytes(peer.received) for peer in server.peers] == [HEALTH % server.port]
    await until(lambda: pool.in_use == 0)
    assert pool.idle_count == 0


async def test_a_call_that_breaks_off_closes_the_idle_connections(serve, pool_to):
    """A server that ends closes its connections one by one; the next call must not meet a dying one."""
    gate = asyncio.Event()

    async def server(peer):
        for _ in range(2):
            await peer.request()
            await peer.send(
                OK.replace(b"Content-Length: 2\r\n\r\nok", b"Content-Length: 18\r\n\r\nthe-right-instance")
            )
        await peer.request()
        await gate.wait()  # and then it closes

    listening = await serve(server)
    pool = pool_to(listening.port)
    await asyncio.gather(call(pool), call(pool), call(pool))
    assert pool.idle_count == 3
    broken = asyncio.create_task(call(pool))
    await until(lambda: pool.in_use == 1)
    gate.set()
    with pytest.raises(UpstreamFailure):
        await broken
    await until(lambda: pool.idle_count == 0)


async def test_the_right_nonce_from_another_users_process_is_refused(serve, pool_to):
    """Any local user can read a nonce from a health answer, and take the port of a server that died."""

    async def thief(peer):
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\nthe-right-instance")
        await peer.disconnect()

    server = await serve(thief)
    seen = []

    def owner_of(ours, theirs):
        seen.append(theirs[1])
        return os.getuid() + 1

    with pytest.raises(UpstreamFailure, match="identity_mismatch"):
        await call(pool_to(server.port, owner_of=owner_of))
    await server.finished()
    assert seen == [server.port]
    assert [bytes(peer.received) for peer in server.peers] == [HEALTH % server.port]


async def test_refused_connect_is_not_delivered(pool_to):
    with socket.socket() as taken:  # bound and not listening: refuses, and nobody else can take the port
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(UpstreamFailure) as failure:
            await call(pool_to(taken.getsockname()[1]))
    assert (failure.value.blame, failure.value.cause) == (Blame.NOT_DELIVERED, "connection_refused")


async def test_a_server_that_accepts_and_hangs_fails_as_not_delivered(serve, pool_to):
    """A stopped process still accepts, the kernel does it."""

    async def hanging(peer):
        await peer.request()
        await peer.disconnect()

    server = await serve(hanging)
    with pytest.raises(UpstreamFailure) as failure:
        await call(pool_to(server.port, connect_timeout=0.05))
    assert (failure.value.blame, failure.value.cause) == (Blame.NOT_DELIVERED, "timeout")
    await server.finished()
    assert bytes(server.peers[0].received) == HEALTH % server.port


@pytest.mark.parametrize(
    ("verified", "answer", "ending", "blame", "cause"),
    [
        (False, b"", "fin", Blame.NOT_DELIVERED, "connection_lost"),
        (False, b"", "rst", Blame.NOT_DELIVERED, "connection_lost"),
        (False, OK[:-1], "fin", Blame.NOT_DELIVERED, "truncated_response"),
        (True, b"", "fin", Blame.MAYBE_DELIVERED, "connection_lost"),
        (True, b"", "rst", Blame.MAYBE_DELIVERED, "connection_lost"),
        (True, OK[:14], "fin", Blame.MAYBE_DELIVERED, "connection_lost"),
        (True, OK[:-1], "fin", Blame.MAYBE_DELIVERED, "truncated_response"),
    ],
)
async def test_the_death_of_the_server_says_if_the_call_may_be_delivered(
    serve, pool_to, verified, answer, ending, blame, cause
):
    async def dying(peer):
        if verified:
            await peer.identify()
        await peer.request()
        await peer.send(answer)
        if ending == "rst":
            peer.reset()

    pool = pool_to((await serve(dying)).port)
    with pytest.raises(UpstreamFailure) as failure:
        await call(pool)
    assert (failure.value.blame, failure.value.cause) == (blame, cause)
    await until(lambda: pool.in_use == 0)
    assert pool.idle_count == 0


@pytest.mark.parametrize("unsolicited", [b"", b"HTTP/1.1 408 Timeout\r\nContent-Length: 0\r\n\r\n"])
async def test_an_idle_connection_that_closes_or_sends_data_is_replaced(serve, pool_to, unsolicited):
    async def script(peer):
        if peer is not server.peers[0]:
            return await serving(peer)
        await peer.identify()
        await peer.request()
        await peer.send(OK)
        await idle.wait()
        return await peer.send(unsolicited)

    idle = asyncio.Event()
    server = await serve(script)
    pool = pool_to(server.port)
    assert await call(pool) == b"ok"
    assert pool.idle_count == 1
    idle.set()
    await until(lambda: pool.idle_count == 0)
    assert await call(pool) == b"ok"
    assert len(server.peers) == 2


async def test_an_idle_connection_that_is_closing_is_skipped(serve, pool_to):
    server = await serve(serving)
    pool = pool_to(server.port)
    await asyncio.gather(call(pool), call(pool))
    pool._idle[-1].close("test")
    assert await call(pool) == b"ok"
    assert len(server.peers) == 2


async def test_a_reused_connection_that_breaks_off_may_have_delivered(serve, pool_to):
    async def script(peer):
        await peer.identify()
        await peer.request()
        await peer.send(OK)
        await peer.request()  # and closes

    server = await serve(script)
    pool = pool_to(server.port)
    await call(pool)
    with pytest.raises(UpstreamFailure) as failure:
        await call(pool)
    assert failure.value.blame is Blame.MAYBE_DELIVERED
    assert len(server.peers) == 1, "the call was not sent again"


async def test_connection_close_of_the_server_is_honoured(serve, pool_to):
    async def script(peer):
        await peer.identify()
        await peer.request()
        await peer.send(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        await peer.disconnect()

    server = await serve(script)
    pool = pool_to(server.port)
    assert [await call(pool) for _ in range(2)] == [b"ok"] * 2
    assert (len(server.peers), pool.idle_count) == (2, 0)
    await server.finished()


async def test_a_server_that_closes_after_the_verification_gets_no_call(serve, pool_to):
    async def script(peer):
        await peer.request()
        await peer.send(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 18\r\n\r\nthe-right-instance"
        )
        await peer.disconnect()

    server = await serve(script)
    with pytest.raises(UpstreamFailure) as failure:
        await call(pool_to(server.port))
    assert (failure.value.blame, failure.value.cause) == (Blame.NOT_DELIVERED, "connection_lost")
    await server.finished()
    assert bytes(server.peers[0].received) == HEALTH % server.port


@pytest.mark.parametrize("value", [b"a\r\nX-Injected: b", b"a\nb", b"a\rb", b"a\0b"])
async def test_header_injection_is_refused_before_anything_is_connected(serve, pool_to, value):
    server = await serve(serving)
    pool = pool_to(server.port)
    with pytest.raises(ValueError):
        await pool.request(b"POST", b"/mcp", ((b"X-Workspace-Cwd", value),), b"")
    assert (server.peers, pool.in_use) == ([], 0)


async def test_fault_in_verify_is_raised_and_leaves_no_connection(serve, pool_to):
    def broken(head, body):
        raise LookupError

    server = await serve(serving)
    pool = pool_to(server.port, verify=broken)
    with pytest.raises(LookupError):
        await call(pool)
    await server.finished()
    await until(lambda: pool.in_use == 0)


@pytest.mark.parametrize("verified", [False, True])
async def test_cancelled_request_makes_the_server_see_a_disconnect(serve, pool_to, verified):
    async def script(peer):
        if verified:
            await peer.identify()
        await peer.request()
        reached.set()
        await peer.disconnect()

    reached = asyncio.Event()
    server = await serve(script)
    pool = pool_to(server.port)
    task = asyncio.create_task(call(pool))
    async with asyncio.timeout(BOUND):
        await reached.wait()
    assert pool.in_use == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.finished()
    await until(lambda: pool.in_use == 0)
    assert pool.idle_count == 0


async def test_cancel_at_any_step_of_a_request_leaves_nothing_open(serve, pool_to):
    server = await serve(serving)
    pool = pool_to(server.port)
    outcomes = set()
    for steps in range(60):
        await pool.close()
        pool = pool_to(server.port)
        task = asyncio.create_task(call(pool))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        outcomes.add((await asyncio.gather(task, return_exceptions=True))[0].__class__)
        await until(lambda pool=pool: pool.in_use == 0)
    assert outcomes == {asyncio.CancelledError, bytes}, "the loop reached from the first step to the answer"


async def test_no_more_than_max_idle_connections_are_kept(serve, pool_to):
    server = await serve(serving)
    pool = pool_to(server.port, max_idle=2)
    await asyncio.gather(*[call(pool) for _ in range(5)])
    await until(lambda: pool.in_use == 0)
    assert (len(server.peers), pool.idle_count) == (5, 2)


async def test_probe_takes_a_fresh_connection_and_does_not_make_the_pool_grow(serve, pool_to):
    server = await serve(serving)
    pool = pool_to(server.port)
    for _ in range(3):
        head, body = await pool.probe(BOUND)
        assert (head.status, body) == (200, b"the-right-instance")
    await until(lambda: pool.in_use == 0)
    assert (len(server.peers), pool.idle_count) == (3, 1)
    assert await call(pool) == b"ok"
    assert len(server.peers) == 3, "the call used the connection of the last probe"


async def test_probe_shows_the_secret_only_to_a_server_that_proved_its_identity(serve, pool_to):
    async def right_server(peer):
        await peer.identify()
        await peer.request()
        await peer.send(OK.replace(b": 2\r\n\r\nok", b": 18\r\n\r\nthe-right-instance"))
        await peer.disconnect()

    async def stranger(peer):
        await peer.identify(b"wrong")
        await peer.disconnect()

    server, other = await serve(right_server), await serve(stranger)
    head, body = await pool_to(server.port).probe(BOUND, ((b"X-Secret", SECRET),))
    assert (head.status, body) == (200, b"the-right-instance")
    first, _, second = bytes(server.peers[0].received).partition(b"\r\n\r\n")
    assert (SECRET in first, SECRET in second) == (False, True)
    with pytest.raises(UpstreamFailure):
        await pool_to(other.port).probe(BOUND, ((b"X-Secret", SECRET),))
    await other.finished()
    assert SECRET not in other.peers[0].received


async def test_probe_of_a_server_that_keeps_no_connection_succeeds(serve, pool_to):
    async def script(peer):
        await peer.request()
        await peer.send(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 18\r\n\r\nthe-right-instance"
        )

    pool = pool_to((await serve(script)).port)
    head, _ = await pool.probe(BOUND)
    assert (head.status, pool.idle_count) == (200, 0)


async def test_a_probe_of_a_hanging_server_uses_no_idle_connection(serve, pool_to):
    async def script(peer):
        if peer is server.peers[0]:
            await serving(peer)
        else:
            await peer.disconnect()

    server = await serve(script)
    pool = pool_to(server.port)
    await call(pool)
    with pytest.raises(UpstreamFailure) as failure:
        await pool.probe(0.05)
    assert (failure.value.blame, failure.value.cause) == (Blame.NOT_DELIVERED, "timeout")
    assert pool.idle_count == 1


async def test_close_fails_the_calls_in_flight_and_every_later_one(serve, pool_to):
    async def script(peer):
        number = server.peers.index(peer)
        if number < 2:
            await peer.identify()
            await peer.request()
        if number == 1:
            await peer.send(OK[:-1])
        await peer.disconnect()

    server = await serve(script)
    pool = pool_to(server.port)
    calls = []
    for number in range(3):
        calls.append(asyncio.create_task(call(pool)))
        await until(lambda number=number: len(server.peers) == number + 1)
    await until(lambda: all(b"POST" in peer.received for peer in server.peers[:2]))
    await pool.close()
    assert (pool.idle_count, pool.in_use) == (0, 0)
    failures = await asyncio.gather(*calls, return_exceptions=True)
    assert [failure.cause for failure in failures] == ["pool_closed"] * 3
    assert [failure.blame.name for failure in failures] == ["MAYBE_DELIVERED"] * 2 + ["NOT_DELIVERED"]
    with pytest.raises(UpstreamFailure) as failure:
        await call(pool)
    assert (failure.value.blame, failure.value.cause) == (Blame.NOT_DELIVERED, "pool_closed")
    await pool.close()


async def test_a_closed_pool_does_not_connect(pool_to):
    with socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))
        pool = pool_to(refusing.getsockname()[1])
        await pool.close()
        with pytest.raises(UpstreamFailure, match="pool_closed"):
            await call(pool)


async def test_a_connection_lost_before_its_caller_wakes_is_forgotten(serve, pool_to, monkeypatch):
    async def hanging_up(peer):
        peer.reset()

    async def wakes_late(factory, *address):
        transport, connection = await connect(factory, *address)
        await until(transport.is_closing)
        for _ in range(3):
            await asyncio.sleep(0)  # connection_lost is called one turn after the transport began to close
        return transport, connection

    loop = asyncio.get_running_loop()
    connect = loop.create_connection
    monkeypatch.setattr(loop, "create_connection", wakes_late)
    pool = pool_to((await serve(hanging_up)).port)
    with pytest.raises(UpstreamFailure) as failure:
        await call(pool)
    assert (failure.value.blame, failure.value.cause) == (Blame.NOT_DELIVERED, "connection_lost")
    assert pool.in_use == 0


async def test_close_during_connect_leaves_no_connection(serve, pool_to):
    server = await serve(serving)
    for steps in range(4):
        pool = pool_to(server.port)
        task = asyncio.create_task(call(pool))
        for _ in range(steps):
            await asyncio.sleep(0)
        await pool.close()
        with pytest.raises(UpstreamFailure, match="pool_closed"):
            await task
        assert pool.in_use == 0
    await server.finished()


@pytest.fixture
async def aiohttp_port(loop_faults):
    """An ordinary aiohttp application as the server."""

    async def health(_: web.Request) -> web.Response:
        return web.Response(body=b"the-right-instance")

    async def echo(request: web.Request) -> web.Response:
        message = await request.json()
        return web.json_response({"id": message["id"], "length": len(message["text"])})

    async def events(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(5):
            await response.write(b"data: %d\n\n" % number)
            await taken.get()
        return response

    app = web.Application(client_max_size=64 * LIMIT)
    taken: asyncio.Queue[None] = asyncio.Queue()
    app.add_routes([web.get("/mcp/health", health), web.post("/echo", echo), web.post("/events", events)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=512)
    await site.start()
    yield runner.addresses[0][1], taken
    await runner.cleanup()


async def test_200_calls_at_once_get_their_own_answers(aiohttp_port, pool_to):
    async def ask(number: int) -> None:
        body = json.dumps({"id": number, "text": "x" * (number * 997)}).encode()
        response = await pool.request(b"POST", b"/echo", ((b"Content-Type", b"application/json"),), body)
        assert json.loads(await response.read(LIMIT)) == {"id": number, "length": number * 997}

    pool = pool_to(aiohttp_port[0], max_idle=64, connect_timeout=BOUND)
    async with asyncio.timeout(BOUND):
        for _ in range(2):
            await asyncio.gather(*map(ask, range(200)))
    await until(lambda: pool.in_use == 0)
    assert pool.idle_count == 64


async def test_events_of_an_aiohttp_stream_arrive_one_by_one(aiohttp_port, pool_to):
    port, taken = aiohttp_port
    pool = pool_to(port)
    got = []
    async with asyncio.timeout(BOUND):
        async for piece in (await pool.request(b"POST", b"/events", (), b"")).chunks():
            got.append(piece)
            taken.put_nowait(None)
    assert got == [b"data: %d\n\n" % number for number in range(5)]
    assert (pool.idle_count, pool.in_use) == (1, 0)


@pytest.mark.parametrize(
    ("extra", "is_reused"), [(OK, False), (b"HTTP/1.1 408 Request Timeout\r\n\r\n", True), (b"", True)]
)
async def test_after_an_answer_to_no_request_no_connection_is_reused(
    extra: bytes, is_reused: bool, serve, pool_to
) -> None:
    """A 408 only says that the server closes an idle connection."""
    noted: list[bool] = []
    is_idle = asyncio.Event()

    async def script(peer) -> None:
        await peer.identify()
        await peer.request()
        await peer.send(OK)
        if len(server.peers) == 1:
            await is_idle.wait()
            await peer.send(extra)
        await peer.disconnect()

    server = await serve(script)
    pool = pool_to(server.port, on_out_of_step=lambda: noted.append(True))
    await (await pool.request(b"GET", b"/", (), b"")).read(LIMIT)
    is_idle.set()
    if extra:
        await until(lambda: pool.idle_count == 0)
    await pool.probe(BOUND)
    assert (pool.idle_count > 0, noted) == (is_reused, [] if is_reused else [True])
