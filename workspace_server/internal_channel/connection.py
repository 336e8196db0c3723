"""Serves one connection of the internal channel: reads requests, sends answers and notifications."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from lm_tools_bridge.machine.own_child_connections import is_own_child_connection
from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.content_length import ContentLengthSplitter, frame
from workspace_server.internal_channel.dispatcher import (
    AuthenticatedRequest,
    ImmediateAnswer,
    InternalDispatcher,
)


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """Limits and deadlines of one channel.

    Attributes:
        connections: number of connections; further ones are closed at once.
        unauthenticated_s: seconds after which a connection that never sent the token is closed.
        message_s: seconds from the first byte of a message to its last.
        write_s: seconds that a peer may take to read an answer.
        linger_s: seconds that calls may still take after the peer closed its sending side.
        calls: concurrent tool calls of one connection; further requests are not read meanwhile.
        failures: wrong tokens after which a connection is closed.
        poll_s: seconds between checks for changes by other processes, while a peer is connected.
    """

    connections: int = 32
    unauthenticated_s: float = 30.0
    message_s: float = 10.0
    write_s: float = 10.0
    linger_s: float = 10.0
    calls: int = 16
    failures: int = 16
    poll_s: float = 1.0


DEFAULTS: Final = ChannelLimits()


# As much as asyncio's own readers buffer.
_CHUNK: Final = 65536
# A program on this machine reads its last answer at once. One that does not read must not delay the stop.
_FLUSH_S: Final = 1.0
MAX_UNREAD: Final = 1024 * 1024
"""Bytes that a peer may leave unread before a further notification closes the connection."""
_NOT_BY_CHILDREN: Final = (
    "programs that a workspace server or an agent started may not change secrets or the configuration: "
    "the user does so in a terminal, with: lmtb secrets"
)


class ConnectionOwner(Protocol):
    """The channel of a connection."""

    async def authenticated(self) -> None:
        """Called when a peer has sent the token."""

    async def poll_changes(self) -> None:
        """Called when secrets or configuration may have changed."""


class ChannelConnection:
    """One connection of the internal channel."""

    def __init__(self, dispatch: InternalDispatcher, owner: ConnectionOwner, limits: ChannelLimits) -> None:
        self._dispatch = dispatch
        self._owner = owner
        self._limits = limits
        self._framing = MessageFraming()
        self._slots = asyncio.Semaphore(limits.calls)
        self._calls: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._writer: asyncio.StreamWriter | None = None
        self.is_authenticated = False

    async def run(self, sock: socket.socket) -> None:
        """Serve until the peer closes, violates the protocol or a limit, or the task is cancelled."""
        try:
            reader, self._writer = await asyncio.open_unix_connection(sock=sock)
        except BaseException:
            sock.close()
            raise
        try:
            # a peer that closed or exceeded a deadline is not an error
            with suppress(OSError, TimeoutError):
                await self._read_messages(reader)
                await self._linger()
        finally:
            self.is_authenticated = False
            self._writer.close()
            await self._end_calls()
            await self._flushed(self._writer)

    def notify(self, message: bytes) -> None:
        """Send a notification to an authenticated peer; drops the connection of a peer that does not read."""
        if not self.is_authenticated or self._writer is None or self._writer.is_closing():
            return
        if self._writer.transport.get_write_buffer_size() > MAX_UNREAD:
            self._writer.transport.abort()
        else:
            self._writer.write(self._framing.frame(message))

    async def _read_messages(self, reader: asyncio.StreamReader) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self._framing.broken is None and self._failures < self._limits.failures:
            was_between = self._framing.is_between
            async with asyncio.timeout_at(self._deadline(began)):
                data = await reader.read(_CHUNK)
            if not data:
                return
            messages = self._framing.feed(data)
            for message in messages:
                await self._handle(message)
            # blank lines start no message, so they do not extend the deadline
            if messages or (was_between and not self._framing.is_between):
                began = loop.time()

    def _deadline(self, began: float) -> float | None:
        """The deadline for the rest of a message, or for the token; None for an idle, authenticated peer."""
        if not self._framing.is_between:
            return began + self._limits.message_s
        return None if self.is_authenticated else began + self._limits.unauthenticated_s

    async def _handle(self, message: bytes) -> None:
        request = self._dispatch.read(message)
        match request:
            case None:
                return
            case ImmediateAnswer():
                self._failures += request.failed_authentication
                await self._send(request.answer)
            case AuthenticatedRequest():
                if not self.is_authenticated:
                    await self._owner.authenticated()
                    self.is_authenticated = True
                await self._answer(request)

    async def _answer(self, request: AuthenticatedRequest) -> None:
        """Answer in order, so that a get sees an earlier set; only calls of slow tools run concurrently."""
        if request.is_slow:
            await self._slots.acquire()
            task = asyncio.create_task(self._call(request), name="internal-call")
            self._calls.add(task)
            task.add_done_callback(self._called)
            return
        if request.may_change and await self._is_own_child():
            await self._send(jsonrpc.error(request.id, jsonrpc.INVALID_REQUEST, _NOT_BY_CHILDREN))
            return
        await self._send(await self._dispatch.answer(request))
        if request.may_change:
            await self._owner.poll_changes()

    async def _is_own_child(self) -> bool:
        return self._writer is None or await is_own_child_connection(self._writer.transport)

    async def _call(self, request: AuthenticatedRequest) -> None:
        answer = await self._dispatch.answer(request)
        with suppress(OSError, TimeoutError):  # as in `run`
            await self._send(answer)

    def _called(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        self._slots.release()

    async def _send(self, message: bytes) -> None:
        if self._writer is None:
            return
        self._writer.write(self._framing.frame(message))
        async with asyncio.timeout(self._limits.write_s):
            await self._writer.drain()

    async def _linger(self) -> None:
        """Let running calls finish after the peer closed its sending side."""
        if self._calls and self._framing.broken is None:
            await asyncio.wait(self._calls, timeout=self._limits.linger_s)

    async def _end_calls(self) -> None:
        """Cancel running calls and wait for their end, even if this task is cancelled meanwhile."""
        cancelled = False
        for task in self._calls:
            task.cancel()
        while self._calls:
            try:
                await asyncio.wait(tuple(self._calls))
            except asyncio.CancelledError:
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError

    async def _flushed(self, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_FLUSH_S):
                await writer.wait_closed()
        except (OSError, TimeoutError):
            writer.transport.abort()


# The first byte of a connection selects the form for both directions. Lengths count bytes.

# A call with a file of some MiB as argument fits. Each of the connections may hold as much in memory.
MAX_MESSAGE: Final = 4 * 1024 * 1024

Form = Literal["length", "line"]


class MessageFraming:
    """Splits what one connection receives into messages, and frames what it sends.

    Args:
        max_message: largest message in bytes.
    """

    def __init__(self, max_message: int = MAX_MESSAGE) -> None:
        self._max = max_message
        self._framed = ContentLengthSplitter(max_message)
        self._partial = bytearray()  # a line without its end
        self._too_long: str | None = None
        self.form: Form | None = None

    @property
    def broken(self) -> str | None:
        """Why the stream is broken: a missing or repeated length, or a message that is too large."""
        return self._too_long or self._framed.broken

    @property
    def is_between(self) -> bool:
        """Whether no incomplete message is buffered."""
        return not self._partial and self._framed.is_between

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes; returns the messages that are complete now. Check `broken` afterwards."""
        if self.form is None and data:
            # a header begins with a letter, a JSON object does not
            self.form = "length" if data[0] in b"Cc" else "line"
        if self.form == "length":
            return [message for message in self._framed.feed(data) if isinstance(message, bytes)]
        return [line for line in self._lines(data) if line.strip()]

    def frame(self, message: bytes) -> bytes:
        """Frame a message, which must not contain a line feed, in the connection's form."""
        return frame(message) if self.form == "length" else message + b"\n"

    def _lines(self, data: bytes) -> list[bytes]:
        if self._too_long is not None:
            return []
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = bytes(self._partial + whole[0])
            self._partial.clear()
        self._partial += rest
        for number, line in enumerate((*whole, self._partial)):
            if len(line) > self._max:
                self._too_long = f"a message is longer than {self._max} bytes"
                return whole[:number]
        return whole
