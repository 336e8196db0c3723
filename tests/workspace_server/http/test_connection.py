"""Connections: where requests begin and end, however their bytes come, and how connections end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from lm_tools_bridge.protocol import headers
from workspace_server.http.connections import Connections, HttpRequest

SECRET = "s3cret"
BODY = b'{"a":1}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
Serve = Callable[[HttpRequest], None]


def echo(http_request: HttpRequest) -> None:
    http_request.respond(200, http_request.body)


class Peer:
    """A caller that writes bytes and reads bytes."""

    def __init__(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.port = port
        self.reader = reader
        self.writer = writer

    def head(self, *lines: str, version: str = "1.1") -> bytes:
        own = [
            f"Host: 127.0.0.1:{self.port}",
            f"{headers.SECRET}: {SECRET}",
            "Content-Type: application/json",
        ]
        return "\r\n".join([f"POST /mcp HTTP/{version}", *own, *lines, "", ""]).encode()

    def request(self, body: bytes = BODY) -> bytes:
        return self.head(f"Content-Length: {len(body)}") + body

    async def answers(self, *bodies: bytes) -> None:
        for body in bodies:
            expected = ANSWER % (len(body), body)
            assert await asyncio.wait_for(self.reader.readexactly(len(expected)), 5) == expected

    async def rest(self) -> bytes:
        return await asyncio.wait_for(self.reader.read(), 5)


@asynccontextmanager
async def connections(serve: Serve) -> AsyncIterator[tuple[Connections, Peer]]:
    made = Connections(SECRET, serve)
    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    await made.listen(sock)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield made, Peer(port, reader, writer)
    finally:
        writer.close()
        await made.close()


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("step", [1, 7, 64, 10_000])
async def test_requests_are_found_however_they_are_cut(step: int, is_known: bool) -> None:
    async with connections(echo) as (_, peer):
        for _ in range(3 if is_known else 0):
            peer.writer.write(peer.request())
            await peer.answers(BODY)
        chunked = peer.head("Transfer-Encoding: chunked") + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        sent = b"\r\n" + peer.request() + chunked + peer.request(b"") + peer.request(BODY * 2)
        for at in range(0, len(sent), step):
            peer.writer.write(sent[at : at + step])
            await peer.writer.drain()
            await asyncio.sleep(0)
        await peer.answers(BODY, b"abcde")
        empty = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        assert await peer.reader.readexactly(len(empty)) == empty
        await peer.answers(BODY * 2)


async def test_a_request_waits_for_the_answer_before_it() -> None:
    served: list[HttpRequest] = []
    async with connections(served.append) as (_, peer):
        peer.writer.write(peer.request(b"1") + peer.request(b"2"))
        while not served:
            await asyncio.sleep(0)
        (first,) = served
        first.respond(200, b"one")
        first, second = served
        second.respond(200, b"two")
        await peer.answers(b"one", b"two")


async def test_100_continue_is_sent_when_it_is_expected() -> None:
    async with connections(echo) as (_, peer):
        peer.writer.write(peer.head("Content-Length: 2", "Expect: 100-continue"))
        assert await peer.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        peer.writer.write(b"ok")
        await peer.answers(b"ok")


@pytest.mark.parametrize("lines", [["Connection: close"], []])
async def test_the_last_answer_says_so_and_ends_the_connection(lines: list[str]) -> None:
    async with connections(echo) as (_, peer):
        version = "1.1" if lines else "1.0"
        peer.writer.write(peer.head("Content-Length: 2", *lines, version=version) + b"ok" + peer.request())
        answer = await peer.rest()
        assert answer.count(b"HTTP/1.1 ") == 1
        assert b"\r\nConnection: close\r\n" in answer
        assert answer.endswith(b"\r\n\r\nok")


@pytest.mark.parametrize(
    "sent",
    [b"\x16\x03\x01", b"GET /mcp HTTP/2.0\r\n\r\n", b"POST /mcp\r\n\r\n", b'{"jsonrpc":"2.0"}'],
)
async def test_what_is_no_request_is_refused_and_nothing_is_served(sent: bytes) -> None:
    served: list[HttpRequest] = []
    async with connections(served.append) as (_, peer):
        peer.writer.write(sent)
        assert (await peer.rest()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert served == []


async def test_a_broken_chunk_ends_the_connection_before_anything_is_served() -> None:
    served: list[HttpRequest] = []
    async with connections(served.append) as (_, peer):
        peer.writer.write(peer.head("Transfer-Encoding: chunked") + b"zz\r\n" + peer.request())
        answer = await peer.rest()
        assert (answer.count(b"HTTP/1.1 "), answer[9:12], served) == (1, b"400", [])


async def test_an_answer_that_comes_is_in_chunks_for_those_who_know_them() -> None:
    async def stream(http_request: HttpRequest) -> None:
        http_request.start(200, {}, "text/event-stream")
        await http_request.write(b"one")
        await http_request.write(b"two")
        http_request.finish()

    async with connections(lambda http_request: http_request.run(stream(http_request))) as (_, peer):
        peer.writer.write(peer.request())
        assert b"\r\nTransfer-Encoding: chunked\r\n" in await peer.reader.readuntil(b"\r\n\r\n")
        assert await peer.reader.readuntil(b"0\r\n\r\n") == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
        peer.writer.write(peer.head("Content-Length: 0", version="1.0"))
        head, _, body = (await peer.rest()).partition(b"\r\n\r\n")
        assert (b"chunked" in head, body) == (False, b"onetwo")


async def test_a_caller_that_does_not_read_is_waited_for() -> None:
    blocked = asyncio.Event()

    async def stream(http_request: HttpRequest) -> None:
        http_request.start(200, {}, "text/event-stream")
        for _ in range(400):
            writing = asyncio.ensure_future(http_request.write(bytes(65_536)))
            await asyncio.sleep(0)
            if not writing.done():
                blocked.set()
            await writing
        http_request.finish()

    async with connections(lambda http_request: http_request.run(stream(http_request))) as (_, peer):
        peer.writer.write(peer.request())
        await asyncio.wait_for(blocked.wait(), 5)
        come = b""
        while not come.endswith(b"0\r\n\r\n"):
            come += await asyncio.wait_for(peer.reader.read(1 << 20), 5)
        assert len(come) > 400 * 65_536


async def test_the_end_waits_for_answers_under_way_and_for_nobody_else() -> None:
    release = asyncio.Event()
    begun = asyncio.Event()

    async def slow(http_request: HttpRequest) -> None:
        begun.set()
        await release.wait()
        http_request.respond(200, b"late")

    async with connections(lambda http_request: http_request.run(slow(http_request))) as (made, peer):
        idle, other = await asyncio.open_connection("127.0.0.1", peer.port)
        peer.writer.write(peer.request())
        await asyncio.wait_for(begun.wait(), 5)
        closing = asyncio.create_task(made.close())
        assert await asyncio.wait_for(idle.read(), 5) == b""
        other.close()
        release.set()
        await peer.answers(b"late")
        await closing
        assert await peer.rest() == b""
