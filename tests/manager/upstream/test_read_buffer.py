"""Large bodies are relayed in lent pieces, completely, however slow the client is."""

from __future__ import annotations

import asyncio
import hashlib
import random
import socket
from unittest.mock import Mock

import pytest

from manager.forwarding.body_flow import Flow
from manager.upstream import header_cache, read_buffer
from manager.upstream.failures import UpstreamFailure
from manager.upstream.pool import request_head

BOUND = 10.0
GET = request_head(b"GET", b"/", b"h", (), 0)
BODY = random.Random(1).randbytes(5_000_000)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


class Line(asyncio.Protocol):
    """A client's connection, and the sink in front of it."""

    def __init__(self) -> None:
        self.is_full = False
        self.kinds: set[type] = set()
        self._then = lambda: None

    def connection_made(self, transport) -> None:
        self.transport = transport

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        then, self._then = self._then, lambda: None
        then()

    def put(self, data) -> bool:
        self.kinds.add(type(data))
        self.transport.write(data)
        return not self.is_full

    def when_writable(self, call) -> None:
        self._then = call


@pytest.fixture
async def both():
    """A client's connection, and the client."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    _, line = await asyncio.get_running_loop().create_connection(Line, sock=ours)
    yield line, theirs
    line.transport.abort()
    theirs.close()


async def read(client: socket.socket, size: int, *, at_a_time: int) -> bytes:
    loop, got = asyncio.get_running_loop(), bytearray()
    async with asyncio.timeout(BOUND):
        while len(got) < size:
            got += await loop.sock_recv(client, at_a_time)
            await asyncio.sleep(0)
    return bytes(got)


async def begun(serve, connect, script):
    """The response to a request, and its connection."""
    connection = await connect(await serve(script))
    return await connection.exchange(GET, b""), connection


def lent(response, line):
    ended = asyncio.get_running_loop().create_future()
    Flow(response, line, ended.set_result)
    response.lend()
    return ended


@pytest.mark.parametrize("at_a_time", [5_000, 5_000_000])
async def test_a_lent_body_arrives_whole_and_its_connection_is_reused(serve, connect, both, at_a_time):
    async def script(peer):
        for _ in range(3):
            await peer.request()
            await peer.send(HEAD % len(BODY) + BODY)
        await peer.request()
        await peer.send(HEAD % 2 + b"hi")

    response, connection = await begun(serve, connect, script)
    line, client = both
    for turn in range(3):
        if turn:
            response = await connection.exchange(GET, b"")
        ended = lent(response, line)
        got = await read(client, len(BODY), at_a_time=at_a_time)
        assert hashlib.sha256(got).digest() == hashlib.sha256(BODY).digest()
        assert await ended is None
    assert memoryview in line.kinds
    assert await (await connection.exchange(GET, b"")).read(10) == b"hi"


async def test_a_body_that_breaks_off_ends_the_flow_after_its_last_bytes(serve, connect, both):
    async def script(peer):
        await peer.request()
        await peer.send(HEAD % len(BODY) + BODY[:-1])

    response, connection = await begun(serve, connect, script)
    line, client = both
    ended = lent(response, line)
    assert await read(client, len(BODY) - 1, at_a_time=1_000_000) == BODY[:-1]
    failure = await ended
    assert isinstance(failure, UpstreamFailure)
    assert failure.cause == "truncated_response"
    assert not connection.is_open


async def test_data_after_a_lent_body_closes_the_connection(serve, connect, both):
    async def script(peer):
        await peer.request()
        await peer.send(HEAD % len(BODY) + BODY + b"HTTP/1.1 200 OK")

    response, connection = await begun(serve, connect, script)
    line, client = both
    ended = lent(response, line)
    assert await read(client, len(BODY), at_a_time=1_000_000) == BODY
    assert await ended is None
    async with asyncio.timeout(BOUND):
        while connection.is_open:
            await asyncio.sleep(0)


async def test_abandoning_a_lent_body_closes_its_connection(serve, connect, both):
    async def script(peer):
        await peer.request()
        await peer.send(HEAD % len(BODY) + BODY)
        await peer.disconnect()

    response, connection = await begun(serve, connect, script)
    line, client = both
    lent(response, line)
    await read(client, read_buffer.SIZE, at_a_time=10_000)
    response.abandon()
    async with asyncio.timeout(BOUND):
        while connection.is_open:
            await asyncio.sleep(0)


async def silent(peer) -> None:
    await peer.request()
    await peer.disconnect()


async def test_a_cached_head_within_another_head_is_not_taken_for_a_head(serve, connect):
    connection = await connect(await serve(silent))
    response = connection.begin(GET, b"")
    connection.data_received(HEAD % 5 + b"hello")
    assert response.head.status == 200
    response = connection.begin(GET, b"")
    connection.data_received(b"HTTP/1.1 500 Oops\r\nX-Half: ")
    connection.data_received(HEAD % len(BODY) + BODY[:20_000])
    assert response.head.status == 500


@pytest.mark.parametrize("first", [0, 100])
async def test_a_body_abandoned_with_its_last_piece_ends_once(serve, connect, first):
    header_cache._heads.clear()  # a whole response in one read could not be abandoned
    connection = await connect(await serve(silent))
    idle = []
    connection.on_idle = idle.append
    response = connection.begin(GET, b"")
    if first:
        connection.data_received(HEAD % len(BODY) + BODY[:first])
    response.on_data = response.abandon
    connection.data_received(
        BODY[first:] if first else HEAD.replace(b"\r\n\r\n", b"\r\nX: y\r\n\r\n") % 5 + b"hello"
    )
    assert idle == []
    assert response.failure is not None
    assert response.failure.cause == "abandoned"


def filled(reading: read_buffer.ReadBuffer, data: bytes) -> memoryview:
    """The piece that the connection is lent of these bytes."""
    buffer = reading.get_buffer(-1)
    assert len(buffer) == read_buffer.SIZE
    buffer[: len(data)] = data
    reading.buffer_updated(len(data))
    return reading._reader.piece_received.call_args.args[0]


def test_the_next_body_reuses_the_buffer() -> None:
    first = read_buffer.ReadBuffer(Mock())
    piece = filled(first, b"one")
    assert piece == b"one"
    address = id(piece.obj)
    piece.release()
    first._reader.piece_received.reset_mock()
    first.close()
    second = read_buffer.ReadBuffer(Mock())
    assert id(second.get_buffer(-1)) == address
    assert id(read_buffer.ReadBuffer(Mock()).get_buffer(-1)) != address, "it has one user at a time"


def test_a_piece_that_waits_to_be_written_is_not_overwritten() -> None:
    reading = read_buffer.ReadBuffer(Mock())
    pieces = [filled(reading, b"one"), filled(reading, b"two")]
    reading.close()
    pieces.append(filled(read_buffer.ReadBuffer(Mock()), b"six"))
    assert pieces == [b"one", b"two", b"six"]
