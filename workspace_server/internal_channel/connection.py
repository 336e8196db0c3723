"""One connection of the internal channel: bytes in, answers and notifications out, all of it bounded."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Final, Protocol

from workspace_server.internal_channel.dispatcher import (
    AuthenticatedRequest,
    ImmediateAnswer,
    InternalDispatcher,
)
from workspace_server.internal_channel.framing import MessageFraming
from workspace_server.internal_channel.limits import ChannelLimits

_CHUNK: Final = 65536
_FLUSH_S: Final = 1.0
MAX_UNREAD: Final = 1024 * 1024
"""Bytes of notifications a peer may leave unread before it is dropped."""


class ConnectionOwner(Protocol):
    """What a connection tells the channel it belongs to."""

    async def proved(self) -> None:
        """A peer has shown the token."""

    async def look(self) -> None:
        """Secrets or configuration may have changed."""


class ChannelConnection:
    """One connection."""

    def __init__(self, dispatch: InternalDispatcher, owner: ConnectionOwner, limits: ChannelLimits) -> None:
        self._dispatch = dispatch
        self._owner = owner
        self._limits = limits
        self._framing = MessageFraming()
        self._slots = asyncio.Semaphore(limits.calls)
        self._calls: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._writer: asyncio.StreamWriter | None = None
        self.is_proved = False

    async def run(self, sock: socket.socket) -> None:
        """Serve until the peer goes, breaks a rule, or the task is cancelled. Nothing is left afterwards."""
        try:
            reader, self._writer = await asyncio.open_unix_connection(sock=sock)
        except BaseException:
            sock.close()
            raise
        try:
            # a peer that went away or overstayed is nothing to report
            with suppress(OSError, TimeoutError):
                await self._read(reader)
                await self._linger()
        finally:
            self.is_proved = False
            self._writer.close()
            await self._end_calls()
            await self._flushed(self._writer)

    def tell(self, message: bytes) -> None:
        """Send a notification, if the peer has shown the token; one that does not read is dropped."""
        if not self.is_proved or self._writer is None or self._writer.is_closing():
            return
        if self._writer.transport.get_write_buffer_size() > MAX_UNREAD:
            self._writer.transport.abort()
        else:
            self._writer.write(self._framing.frame(message))

    async def _read(self, reader: asyncio.StreamReader) -> None:
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
                await self._take(message)
            # blank lines begin nothing, so they buy no time either
            if messages or (was_between and not self._framing.is_between):
                began = loop.time()

    def _deadline(self, began: float) -> float | None:
        """When to give up waiting: for the rest of a message, or for a peer that has shown nothing yet."""
        if not self._framing.is_between:
            return began + self._limits.message_s
        return None if self.is_proved else began + self._limits.unproved_s

    async def _take(self, message: bytes) -> None:
        asked = self._dispatch.read(message)
        match asked:
            case None:
                return
            case ImmediateAnswer():
                self._failures += asked.proof
                await self._send(asked.answer)
            case AuthenticatedRequest():
                if not self.is_proved:
                    await self._owner.proved()
                    self.is_proved = True
                await self._answer(asked)

    async def _answer(self, asked: AuthenticatedRequest) -> None:
        """In order, so that a value that was set is the value that is got; only users' tools may overtake."""
        if asked.is_slow:
            await self._slots.acquire()
            task = asyncio.create_task(self._call(asked), name="internal-call")
            self._calls.add(task)
            task.add_done_callback(self._called)
            return
        await self._send(await self._dispatch.answer(asked))
        if asked.may_change:
            await self._owner.look()

    async def _call(self, asked: AuthenticatedRequest) -> None:
        answer = await self._dispatch.answer(asked)
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
        """A peer that has said all it wants to say still gets its answers."""
        if self._calls and self._framing.broken is None:
            await asyncio.wait(self._calls, timeout=self._limits.linger_s)

    async def _end_calls(self) -> None:
        """Cancel what still runs and see it end, even when this is cancelled meanwhile."""
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
