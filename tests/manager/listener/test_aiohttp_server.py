"""Requests that come before their server is loaded: they wait, and are answered as if it had been there."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from manager.http.request import HttpRequest
from manager.listener.aiohttp_server import LazyAiohttpServer
from manager.listener.runner import Runner
from manager.routing.admission import AdmissionRules
from support.http.admission_cases import Reply, exchange, parse_reply, request
from support.http.served_connection import QUICK


class Loading:
    """An application that is there when the test says so."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.begun = 0
        self.faults: list[Exception] = []

    def make(self) -> web.Application:
        self.begun += 1
        assert self.may_go_on.wait(10)
        if self.faults:
            raise self.faults.pop()
        app = web.Application()
        app.router.add_post("/echo", echo)
        return app

    def runner(self) -> web.AppRunner:
        return web.AppRunner(self.make(), access_log=None, shutdown_timeout=1.0)


async def echo(request: web.Request) -> web.Response:
    return web.Response(body=b"<" + await request.read() + b">")


def serve(http_request: HttpRequest) -> None:
    http_request.respond(200, b"{}")


@asynccontextmanager
async def port_of(loading: Loading) -> AsyncIterator[int]:
    """The port of a manager whose other routes are still being loaded."""
    sock = socket.create_server(("127.0.0.1", 0))
    port = int(sock.getsockname()[1])
    runner = Runner(loading.make, AdmissionRules.for_ports([port]), limits=QUICK)
    servers = await runner.listen([sock], serve)
    try:
        yield port
    finally:
        loading.may_go_on.set()
        for server in servers:
            server.close()
        await runner.cleanup()


def echoed(port: int, body: bytes = b"x" * 10, *extra: str) -> bytes:
    return request("POST", "/echo", f"127.0.0.1:{port}", "Connection: close", *extra, body=body)


async def begun(loading: Loading, times: int = 1) -> None:
    while loading.begun < times:
        await asyncio.sleep(0.001)


async def test_nothing_is_loaded_for_clients_of_mcp() -> None:
    loading = Loading()
    async with port_of(loading) as port:
        raw = request("POST", "/mcp", f"127.0.0.1:{port}", "Connection: close", body=b"{}")
        assert (await exchange(port, raw)).status == 200
        assert loading.begun == 0


async def test_a_request_waits_for_its_server() -> None:
    loading = Loading()
    async with port_of(loading) as port:
        answer = asyncio.create_task(exchange(port, echoed(port)))
        await begun(loading)
        loading.may_go_on.set()
        reply = await answer
        assert (reply.status, reply.body) == (200, b"<xxxxxxxxxx>")


async def test_calls_are_answered_meanwhile() -> None:
    loading = Loading()
    async with port_of(loading) as port:
        answer = asyncio.create_task(exchange(port, echoed(port)))
        await begun(loading)
        raw = request("POST", "/mcp", f"127.0.0.1:{port}", "Connection: close", body=b"{}")
        assert (await exchange(port, raw)).status == 200
        assert not answer.done()
        loading.may_go_on.set()
        assert (await answer).status == 200


async def test_all_that_wait_are_answered_by_one_server() -> None:
    loading = Loading()
    async with port_of(loading) as port:
        answers = [asyncio.create_task(exchange(port, echoed(port, b"%d" % one))) for one in range(5)]
        await begun(loading)
        loading.may_go_on.set()
        assert [(await one).body for one in answers] == [b"<%d>" % one for one in range(5)]
        assert (await exchange(port, echoed(port, b"later"))).body == b"<later>"
        assert loading.begun == 1


async def test_a_body_that_comes_in_pieces_is_whole() -> None:
    """Larger than what is read at a time, with the head and with the server in between."""
    loading = Loading()
    body = bytes(range(256)) * 4096
    async with port_of(loading) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(echoed(port, body)[:-1])
        await begun(loading)
        await asyncio.sleep(0.05)
        loading.may_go_on.set()
        await writer.drain()
        writer.write(body[-1:])
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b"<" + body + b">")


async def test_a_client_that_leaves_while_waiting_harms_no_other() -> None:
    loading = Loading()
    async with port_of(loading) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(echoed(port))
        await begun(loading)
        writer.transport.abort()
        other = asyncio.create_task(exchange(port, echoed(port)))
        await asyncio.sleep(0.05)
        loading.may_go_on.set()
        assert (await other).status == 200


async def test_what_cannot_be_loaded_is_said_and_tried_again() -> None:
    loading = Loading()
    loading.faults = [ImportError("gone")]
    loading.may_go_on.set()
    async with port_of(loading) as port:
        reply = await exchange(port, echoed(port))
        assert (reply.status, reply.headers["connection"]) == (500, "close")
        assert b"cannot be loaded" in reply.body
        assert (await exchange(port, echoed(port))).status == 200


async def test_who_waits_at_the_end_is_still_answered() -> None:
    loading = Loading()
    async with port_of(loading) as port:
        answer = asyncio.create_task(exchange(port, echoed(port)))
        await begun(loading)
    assert (await answer).status == 200


@asynccontextmanager
async def socket_of(loading: Loading, folder: Path) -> AsyncIterator[str]:
    """A unix socket on which the server itself is accepted for."""
    late, path = LazyAiohttpServer(loading.runner), str(folder / "late.sock")
    server = await asyncio.get_running_loop().create_unix_server(late.protocol, path)
    try:
        yield path
    finally:
        loading.may_go_on.set()
        server.close()
        await late.close()


async def asked(path: str, raw: bytes) -> Reply:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(raw)
    answer = await reader.read()
    writer.close()
    return parse_reply(answer)


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs unix sockets")
async def test_a_connection_waits_as_well(tmp_path: Path) -> None:
    loading = Loading()
    async with socket_of(loading, tmp_path) as path:
        answer = asyncio.create_task(asked(path, echoed(1)))
        await begun(loading)
        await asyncio.sleep(0.02)
        loading.may_go_on.set()
        reply = await answer
        assert (reply.status, reply.body) == (200, b"<xxxxxxxxxx>")
        assert (await asked(path, echoed(1))).status == 200
        assert loading.begun == 1
