"""One connection: requests at MCP routes and all others on it, cut and joined as they may come."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from lm_tools_bridge.http_server.limits import Limits
from manager.http.request import HttpRequest
from manager.routing.admission import ANSWER_HEADERS
from support.http.admission_cases import BODY, exchange, parse_reply, request
from support.http.served_connection import QUICK, served_connection

Serve = Callable[[HttpRequest], None]


class Served:
    """A running server; `seen` are the bodies that came at MCP routes."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.app = web.Application()
        self.port = 0

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def post(self, *extra: str, body: bytes = BODY, path: str = "/mcp") -> bytes:
        return request("POST", path, self.host, *extra, body=body)

    async def ask(self, raw: bytes) -> list[tuple[int, bytes]]:
        """Send, read to the end, and take the answers apart; each must have a length."""
        left = (await exchange(self.port, raw)).raw
        found = []
        while left:
            reply = parse_reply(left)
            length = int(reply.headers["content-length"])
            found.append((reply.status, reply.body[:length]))
            left = reply.body[length:]
        return found


def echo(served: Served) -> Serve:
    """At once."""

    def serve(http_request: HttpRequest) -> None:
        served.seen.append(http_request.body)
        http_request.respond(200, http_request.body or b"{}")

    return serve


def later(served: Served) -> Serve:
    """From a task."""
    at_once = echo(served)

    async def work(http_request: HttpRequest) -> None:
        await asyncio.sleep(0)
        at_once(http_request)

    return lambda http_request: http_request.run(work(http_request))


@asynccontextmanager
async def serving(make: Callable[[Served], Serve] = echo, limits: Limits = QUICK) -> AsyncIterator[Served]:
    served = Served()

    async def page(_: web.Request) -> web.StreamResponse:
        return web.json_response({"page": True})

    served.app.router.add_get("/", page, allow_head=False)
    served.app.router.add_post("/allocate", page)
    async with served_connection(make(served), served.app, limits) as served.port:
        yield served


@pytest.mark.parametrize("make", [echo, later])
async def test_many_requests_at_once_are_answered_one_by_one_in_order(
    make: Callable[[Served], Serve],
) -> None:
    async with serving(make) as served:
        bodies = [b'{"n":%d}' % number for number in range(300)]
        raw = b"".join(served.post(body=body) for body in bodies[:-1])
        found = await served.ask(raw + served.post("Connection: close", body=bodies[-1]))
        assert found == [(200, body) for body in bodies]


@pytest.mark.parametrize("make", [echo, later])
async def test_pages_and_messages_take_turns_on_one_connection(make: Callable[[Served], Serve]) -> None:
    """The server of the pages comes and goes; the connection stays."""
    async with serving(make) as served:
        page = request("GET", "/", served.host)
        raw = served.post() + page + page + served.post() + request("POST", "/allocate", served.host)
        raw += served.post() + request("GET", "/", served.host, "Connection: close") + served.post()
        statuses = [status for status, _ in await served.ask(raw)]
        assert (statuses, served.seen) == ([200] * 7, [BODY] * 3)


async def test_a_page_that_leaves_its_body_unread_ends_where_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as served:
        smuggled = b"POST /mcp HTTP/1.1\r\nHost: evil.example\r\n\r\n" * 1000
        raw = request("POST", "/allocate", served.host, body=smuggled) + served.post("Connection: close")
        statuses = [status for status, _ in await served.ask(raw)]
        assert (statuses, served.seen) == ([200, 200], [BODY])


async def test_a_large_body_that_a_page_leaves_unread_blocks_no_later_request() -> None:
    """aiohttp pauses a transport whose body nobody reads; the next request must be read all the same."""
    async with serving() as served:
        raw = request("POST", "/allocate", served.host, body=bytes(8_000_000))
        statuses = [status for status, _ in await served.ask(raw + served.post("Connection: close"))]
        assert (statuses, served.seen) == ([200, 200], [BODY])


async def test_a_large_body_that_a_page_leaves_unread_is_dropped_and_not_kept() -> None:
    piece, count = bytes(64 * 1024), 120
    async with serving() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        head = request("POST", "/allocate", served.host, f"Content-Length: {count * len(piece)}", body=b"")
        tracemalloc.start()
        try:
            writer.write(head)
            assert b"200 OK" in await reader.readuntil(b'{"page": true}')  # before any of the body
            for _ in range(count):
                writer.write(piece)
                await writer.drain()
            writer.write(served.post("Connection: close"))
            assert b"200 OK" in await asyncio.wait_for(reader.read(), 10)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            writer.close()
        assert served.seen == [BODY]
        assert peak < count * len(piece) / 2


@pytest.mark.parametrize("step", [1, 7, 64, 1000])
async def test_requests_are_the_same_however_they_are_cut(step: int) -> None:
    async with serving() as served:
        chunks = b"3\r\n[1,\r\n2;x=y\r\n2]\r\n0\r\nMcp-Session-Id: trailer\r\n\r\n"
        raw = (
            served.post()
            + b"\r\n"
            + request("GET", "/", served.host)
            + served.post(body=b"[" + b"1" * 3000 + b"]")
        )
        raw += served.post("Transfer-Encoding: chunked", body=chunks) + served.post("Connection: close")
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        for at in range(0, len(raw), step):
            writer.write(raw[at : at + step])
            await asyncio.sleep(0)
        answers = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        assert answers.count(b"HTTP/1.1 200 OK") == 5
        assert served.seen == [BODY, b"[" + b"1" * 3000 + b"]", b"[1,2]", BODY]


async def test_trailers_say_nothing() -> None:
    """A field behind the body must not become one of the head."""
    sessions: list[str | None] = []

    def make(served: Served) -> Serve:
        def serve(http_request: HttpRequest) -> None:
            sessions.append(http_request.session)
            http_request.respond(200, b"{}")

        return serve

    async with serving(make) as served:
        chunks = b"2\r\n{}\r\n0\r\nMcp-Session-Id: b\r\n\r\n"
        own = ("Mcp-Session-Id: a", "Transfer-Encoding: chunked", "Connection: close")
        assert await served.ask(served.post(*own, body=chunks)) == [(200, b"{}")]
        assert sessions == ["a"]


async def test_100_continue_is_sent_when_it_is_expected_and_the_head_is_admitted() -> None:
    async with serving() as served:
        raw = served.post("Expect: 100-continue", "Connection: close")
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(raw[: -len(BODY)])
        assert await reader.readexactly(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(BODY)
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()
        refused = await exchange(served.port, raw.replace(served.host.encode(), b"evil:1")[: -len(BODY)])
        assert refused.raw.startswith(b"HTTP/1.1 421")


async def test_other_methods_are_the_routes_own_matter() -> None:
    def make(served: Served) -> Serve:
        return lambda http_request: http_request.respond(405, b'{"error":"no"}', {"Allow": "POST"})

    async with serving(make) as served:
        reply = await exchange(served.port, request("HEAD", "/mcp", served.host, "Connection: close"))
        assert (reply.status, reply.headers["content-length"], reply.body) == (405, "14", b"")


async def test_a_response_of_unknown_length_is_chunked_or_closes_the_connection() -> None:
    def make(served: Served) -> Serve:
        async def work(http_request: HttpRequest) -> None:
            http_request.start(200, {"X-Own": "1"}, "text/event-stream")
            await http_request.write(b"data: 1\n\n")
            http_request.finish()

        return lambda http_request: http_request.run(work(http_request))

    async with serving(make) as served:
        new = await exchange(served.port, served.post("Connection: close"))
        old = await exchange(served.port, served.post().replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert new.body == b"9\r\ndata: 1\n\n\r\n0\r\n\r\n"
        assert old.body == b"data: 1\n\n"
        for reply in (new, old):
            assert (reply.headers["x-own"], reply.headers["connection"]) == ("1", "close")
            assert all(reply.headers[name.lower()] == value for name, value in ANSWER_HEADERS)


async def test_a_field_that_would_break_the_head_is_never_sent() -> None:
    faults: list[Exception] = []

    def make(served: Served) -> Serve:
        def serve(http_request: HttpRequest) -> None:
            try:
                http_request.respond(200, b"{}", {"X-Own": "a\r\nSet-Cookie: b"})
            except ValueError as fault:
                faults.append(fault)
                http_request.respond(500, b"{}")

        return serve

    async with serving(make) as served:
        assert await served.ask(served.post("Connection: close")) == [(500, b"{}")]
        assert len(faults) == 1


async def test_a_client_that_leaves_ends_the_work() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    def make(served: Served) -> Serve:
        async def work(_: HttpRequest) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        return lambda http_request: http_request.run(work(http_request))

    async with serving(make) as served:
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(served.post())
        await asyncio.wait_for(began.wait(), 5)
        writer.transport.abort()
        await asyncio.wait_for(ended.wait(), 5)


async def test_a_client_that_does_not_read_is_waited_for() -> None:
    """Neither does a response fill the memory, nor are further requests read."""
    written = 0

    def make(served: Served) -> Serve:
        async def work(http_request: HttpRequest) -> None:
            nonlocal written
            http_request.start(200, {}, "application/json", 200 * 65536)
            for _ in range(200):
                await http_request.write(b" " * 65536)
                written += 1
            http_request.finish()

        return lambda http_request: http_request.run(work(http_request))

    async with serving(make) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1024)
        writer.write(served.post("Connection: close"))
        before = -1
        while written != before or not written:
            before = written
            await asyncio.sleep(0.1)
        assert written < 150
        size = 0
        while piece := await reader.read(1 << 20):
            size += len(piece)
        writer.close()
        assert (written, size > 200 * 65536) == (200, True)


async def test_what_is_slow_ends_at_its_deadline_on_every_way() -> None:
    """A body in pieces, one in chunks, and a connection that is idle between two messages."""
    async with serving(limits=Limits(body_s=0.3, keepalive_s=0.3, linger_s=0.3)) as served:
        late = await exchange(served.port, served.post("Content-Length: 500", body=b"{"), within=3)
        chunked = await exchange(
            served.port, served.post("Transfer-Encoding: chunked", body=b"5\r\n{"), within=3
        )
        idle = await exchange(served.port, served.post() + served.post(), within=3)
        assert (late.status, chunked.status, idle.raw.count(b"HTTP/1.1 200")) == (408, 408, 2)
        assert json.loads(late.body)["error"]["code"] == -32600
