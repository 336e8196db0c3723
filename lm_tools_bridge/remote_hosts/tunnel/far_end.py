"""The far end of a line (`lmtb remote serve`): connects its streams to sockets of this user's manager.

Standard input and output are the line. The process ends with the line, or if nothing arrives for `SILENCE_S`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Protocol, cast

from lm_tools_bridge.remote_hosts.tunnel.carrier import Carrier, TransportPipe
from lm_tools_bridge.remote_hosts.tunnel.greeting import Greeting, encode
from lm_tools_bridge.remote_hosts.tunnel.stream import TunnelStream

MCP: Final = "mcp"
CONTROL: Final = "control"
"""The targets of streams: the manager's MCP endpoint, and its control socket."""
SILENCE_S: Final = 90.0
"""The near end pings more often than this."""
_HIGH_WATER: Final = 256 * 1024
"""Bytes of a stream that are not framed yet at which its socket is read no more: as many as the pipe's buffer
takes (`PIPE_ROOM`), so that the line never waits for the socket."""


class FindSocket(Protocol):
    """Finds the socket of a target."""

    def __call__(self, target: str, *, again: bool = False) -> Awaitable[Path | None]:
        """The socket, None if there is no such target.

        Args:
            again: whether the one that was found last does not answer: the manager may have to be started.
        """


async def serve(pipes: tuple[int, int], greeting: Greeting, find_socket: FindSocket) -> str:
    """Serve a line until it ends; returns why it did.

    Args:
        pipes: descriptors to read from and to write to.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[str] = loop.create_future()
    line = _Line(ended)
    writer, start_reading = await _open(line, pipes)
    writer.write(encode(greeting))
    line.carrier = Carrier(
        TransportPipe(writer),
        is_client=False,
        on_closed=line.closed,
        now=time.monotonic,
        on_stream=lambda stream, target: _Bridge(line, stream, target, find_socket),
    )
    line.carrier.start()
    reader = await start_reading()
    watch = asyncio.create_task(line.watch_silence(), name="silence")
    try:
        return await ended
    finally:
        watch.cancel()
        line.carrier.close("ended")
        reader.close()
        await asyncio.gather(watch, *line.tasks, return_exceptions=True)


async def _open(
    line: _Line, pipes: tuple[int, int]
) -> tuple[asyncio.WriteTransport, Callable[[], Awaitable[asyncio.BaseTransport]]]:
    """The writing side of a line, and a function that begins to read.

    Some tools pass one socket for both directions. As a pipe to write to, it would seem to be closed as soon
    as something arrives.
    """
    loop = asyncio.get_running_loop()
    kinds = [os.fstat(one) for one in pipes]
    if stat.S_ISSOCK(kinds[0].st_mode) and kinds[0].st_ino == kinds[1].st_ino:
        os.close(pipes[1])
        both = socket.socket(fileno=pipes[0])
        both.setblocking(False)
        transport, _ = await loop.create_connection(lambda: line, sock=both)
        transport.pause_reading()

        async def resume() -> asyncio.BaseTransport:
            transport.resume_reading()
            return transport

        return transport, resume

    async def read() -> asyncio.BaseTransport:
        reader, _ = await loop.connect_read_pipe(lambda: line, os.fdopen(pipes[0], "rb", 0))
        return reader

    writer, _ = await loop.connect_write_pipe(lambda: line, os.fdopen(pipes[1], "wb", 0))
    return writer, read


def private_pipes() -> tuple[int, int]:
    """Descriptors for the line: from now on, what anything here prints goes to standard error."""
    pipes = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    sys.stdout = sys.stderr
    return pipes


class _Line(asyncio.Protocol):
    """What arrives on standard input, and the state of standard output."""

    carrier: Carrier

    def __init__(self, ended: asyncio.Future[str]) -> None:
        self._ended = ended
        self.tasks: set[asyncio.Task[Any]] = set()

    def data_received(self, data: bytes) -> None:
        self.carrier.feed(data)

    def resume_writing(self) -> None:
        self.carrier.flush()

    def eof_received(self) -> bool:
        self.closed("the line ended")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed("the line ended")

    def closed(self, why: str) -> None:
        if not self._ended.done():
            self._ended.set_result(why)

    def own(self, task: asyncio.Task[Any]) -> None:
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def watch_silence(self) -> None:
        left = SILENCE_S
        while left > 0:
            await asyncio.sleep(left)
            left = self.carrier.heard_at + SILENCE_S - time.monotonic()
        self.closed("nothing arrived for too long")


class _Bridge(asyncio.Protocol):
    """Connects one stream to one socket."""

    _transport: asyncio.Transport

    def __init__(self, line: _Line, stream: TunnelStream, target: str, find_socket: FindSocket) -> None:
        self._line = line
        self._stream = stream
        self._early: list[bytes] | None = []  # arrived before the socket was connected
        self._has_ended = False
        self._has_socket_ended = False
        self._is_full = False
        self._unacknowledged = 0
        line.own(asyncio.create_task(self._connect(target, find_socket), name=f"connect {target}"))

    async def _connect(self, target: str, find_socket: FindSocket) -> None:
        try:
            if not await self._reach(await find_socket(target)):
                await self._reach(await find_socket(target, again=True), is_last=True)
        except (OSError, TimeoutError):
            self._stream.reset()

    async def _reach(self, path: Path | None, *, is_last: bool = False) -> bool:
        """Connect to a socket; False if nobody listens there, which is an error the second time."""
        if path is None:
            raise ConnectionRefusedError("there is no such target")
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: self, str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            if is_last:
                raise
            return False
        return True

    # -- the stream -----------------------------------------------------------------------------------------

    def stream_data(self, data: bytes) -> None:
        if self._early is not None:
            self._early.append(data)
            return
        self._transport.write(data)
        self._unacknowledged += len(data)
        if not self._is_full:
            self._acknowledge()

    def stream_ended(self) -> None:
        self._has_ended = True
        if self._early is not None:
            return
        if self._has_socket_ended:
            self._transport.close()
        elif self._transport.can_write_eof():
            self._transport.write_eof()

    def stream_lost(self, *, is_line: bool) -> None:
        if self._early is None:
            self._transport.abort()

    def stream_writable(self) -> None:
        if self._early is None and not self._transport.is_closing():
            self._transport.resume_reading()

    # -- the socket -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit from it
        early, self._early = self._early or [], None
        if not self._stream.is_open:
            self._transport.abort()
            return
        self._line.carrier.accept(self._stream)
        for data in early:
            self.stream_data(data)
        if self._has_ended:
            self.stream_ended()

    def data_received(self, data: bytes) -> None:
        self._stream.write(data)
        if self._stream.pending_size > _HIGH_WATER:
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._acknowledge()

    def eof_received(self) -> bool:
        self._has_socket_ended = True
        self._stream.end()
        return not self._has_ended  # the near end may still write

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None:
            self._stream.end()
        else:
            self._stream.reset()

    def _acknowledge(self) -> None:
        count, self._unacknowledged = self._unacknowledged, 0
        self._stream.taken(count)
