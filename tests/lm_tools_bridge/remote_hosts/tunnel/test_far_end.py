"""The far end of a line, with a real socket behind it."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from pathlib import Path

import psutil

from lm_tools_bridge.remote_hosts.tunnel import far_end
from lm_tools_bridge.remote_hosts.tunnel.carrier import Carrier, TransportPipe
from lm_tools_bridge.remote_hosts.tunnel.greeting import PROTOCOL, Greeting, GreetingReader, NoGreeting
from lm_tools_bridge.remote_hosts.tunnel.stream_transport import connect


class Near(asyncio.Protocol):
    """The near end, as far as it is needed."""

    def __init__(self) -> None:
        self.carrier: Carrier | None = None
        self.begun = asyncio.Event()
        self._greeting = GreetingReader()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.carrier is not None:
            self.carrier.feed(data)
            return
        found = self._greeting.feed(data)
        if found is None:
            return
        assert not isinstance(found, NoGreeting)
        pipe = TransportPipe(self.transport)
        self.carrier = Carrier(pipe, is_client=True, on_closed=lambda why: None, now=time.monotonic)
        self.carrier.start()
        self.carrier.feed(found[1])
        self.begun.set()


async def test_sockets_that_both_sides_have_ended_are_closed(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"answer\n")
        writer.close()

    path = tmp_path / "s"
    server = await asyncio.start_unix_server(answer, str(path))

    async def find(target: str, *, again: bool = False) -> Path:
        return path

    ours, theirs = socket.socketpair()
    fd = theirs.detach()
    serving = asyncio.create_task(far_end.serve((fd, os.dup(fd)), Greeting(PROTOCOL, "1"), find))
    ours.setblocking(False)
    _, near = await asyncio.get_running_loop().create_connection(Near, sock=ours)
    await near.begun.wait()
    assert near.carrier is not None
    before = psutil.Process().num_fds()
    for _ in range(5):
        connect(near.carrier, "mcp", asyncio.Protocol)[0].write(b"question\n")
    async with asyncio.timeout(10):
        while near.carrier.stream_count or psutil.Process().num_fds() > before:
            await asyncio.sleep(0.01)
    near.transport.close()
    await serving
    server.close()
