"""A TCP server for the upstream client that runs one script per connection and records what it received."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from manager.upstream.connection import Connection
from manager.upstream.pool import Pool
from support.processes.timeouts import GUARD_S

NONCE = b"the-right-instance"
BOUND = GUARD_S

Script = Callable[["Peer"], Awaitable[None]]


class Peer:
    """One accepted connection, seen from the server; `received` is every byte that came."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.received = bytearray()
        self._reader = reader
        self._writer = writer

    async def request(self) -> bytes:
        """The next request, head and body."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        self.received += head
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        body = await self._reader.readexactly(length)
        self.received += body
        return head + body

    async def head(self) -> bytes:
        """The head of the next request, its body unread."""
        return await self._reader.readuntil(b"\r\n\r\n")

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self._writer.write(piece)
            await self._writer.drain()

    async def identify(self, nonce: bytes = NONCE) -> None:
        """Answers the health request that opens every connection of a pool."""
        await self.request()
        await self.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(nonce), nonce))

    async def disconnect(self) -> None:
        """Returns when the client has closed."""
        with contextlib.suppress(ConnectionError):
            while piece := await self._reader.read(65536):
                self.received += piece

    def stop_reading(self) -> None:
        """Lets the kernel fill a small buffer and takes nothing out of it."""
        self._writer.transport.pause_reading()
        peer = self._writer.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)

    def reset(self) -> None:
        """Ends with RST instead of FIN."""
        peer = self._writer.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


class ScriptedServer:
    """Runs `script` on every connection; `finished()` waits for the scripts and raises their faults."""

    def __init__(self, script: Script) -> None:
        self.peers: list[Peer] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._script = script

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def finished(self) -> None:
        async with asyncio.timeout(BOUND):
            await asyncio.gather(*self.tasks)

    async def stop(self) -> None:
        self._server.close()
        for task in self.tasks:
            task.cancel()
        outcomes = await asyncio.gather(*self.tasks, return_exceptions=True)
        faults = [fault for fault in outcomes if isinstance(fault, Exception)]
        assert not faults, faults

    def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        self.peers.append(peer)
        self.tasks.append(asyncio.create_task(self._run(peer)))

    async def _run(self, peer: Peer) -> None:
        try:
            await self._script(peer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client hung up on a script that was still sending, or asking for the next request
        finally:
            await peer.close()


class WatchedConnection(Connection):
    """A connection that counts the bytes it was given, so that a test sees when they were taken in."""

    seen = 0
    consumed = 0
    peak = 0
    is_lost = False

    @property
    def transport(self) -> asyncio.Transport:
        return self._transport

    async def has_seen(self, count: int) -> None:
        async with asyncio.timeout(BOUND):
            while self.seen < count:
                await asyncio.sleep(0)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.is_lost = True

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.seen += len(data)
        self.peak = max(self.peak, self.seen - self.consumed)


@pytest.fixture
async def loop_faults() -> AsyncIterator[None]:
    """Nothing may end up in the loop's exception handler, such as a task exception never retrieved."""
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    yield
    assert not faults


@pytest.fixture
async def serve(loop_faults) -> AsyncIterator[Callable[[Script], Awaitable[ScriptedServer]]]:
    servers: list[ScriptedServer] = []

    async def start(script: Script) -> ScriptedServer:
        servers.append(ScriptedServer(script))
        await servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        await server.stop()


@pytest.fixture
async def connect(serve) -> AsyncIterator[Callable[[ScriptedServer], Awaitable[WatchedConnection]]]:
    opened: list[WatchedConnection] = []
    lost: list[Connection] = []

    async def open_to(server: ScriptedServer) -> WatchedConnection:
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: WatchedConnection(lost.append), "127.0.0.1", server.port
        )
        opened.append(connection)
        return connection

    yield open_to
    for connection in opened:
        connection.close("test_over")
    async with asyncio.timeout(BOUND):
        while len(lost) < len(opened):
            await asyncio.sleep(0)
    assert sorted(map(id, lost)) == sorted(map(id, opened)), "each connection is reported lost exactly once"


@pytest.fixture
async def pool_to(serve) -> AsyncIterator[Callable[..., Pool]]:
    pools: list[Pool] = []

    def make(port: int, **options) -> Pool:
        options.setdefault("verify", lambda head, body: head.status == 200 and body == NONCE)
        pools.append(Pool("127.0.0.1", port, **options))
        return pools[-1]

    yield make
    for pool in pools:
        async with asyncio.timeout(BOUND):
            await pool.close()
        assert (pool.idle_count, pool.in_use) == (0, 0)
