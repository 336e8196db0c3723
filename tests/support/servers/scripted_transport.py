"""A transport whose server is a function, for tests of sessions without processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from protocol.versions import Era
from workspace_server.sources.mcp.failures import TransportEnded, Unavailable
from workspace_server.sources.mcp.session.transport import RequestFailed, ResponseStreamMessage

Message = dict[str, Any]
GREETING: Message = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "wire", "version": "1"},
    "instructions": "be kind",
}


class ScriptedTransport:
    """A transport. `serve(wire, message)` hears everything that is sent except what a handshake needs.

    Attributes:
        sent: every message, decoded.
        told: what `negotiated` was told.
        closed: how often it was closed.
        lingers: a close waits for this.
        refuse: what `send` raises from now on.
    """

    def __init__(
        self,
        serve: Callable[[ScriptedTransport, Message], None] | None = None,
        greeting: Message | None = None,
    ) -> None:
        self.sent: list[Message] = []
        self.told: list[tuple[Era, str]] = []
        self.closed = 0
        self.lingers: asyncio.Event | None = None
        self.refuse: Exception | None = None
        self._serve = serve
        self._greeting = GREETING if greeting is None else greeting
        self._arrived: asyncio.Queue[bytes | ResponseStreamMessage | RequestFailed | Exception] = (
            asyncio.Queue()
        )

    async def send(self, message: bytes) -> None:
        if self.refuse is not None:
            raise self.refuse
        decoded = json.loads(message)
        self.sent.append(decoded)
        if decoded.get("method") == "initialize" and self._greeting:
            self.answer(decoded, self._greeting)
        elif self._serve is not None:
            self._serve(self, decoded)

    async def receive(self) -> bytes | ResponseStreamMessage | RequestFailed:
        arrived = await self._arrived.get()
        if isinstance(arrived, Exception):
            raise arrived
        return arrived

    def negotiated(self, era: Era, revision: str) -> None:
        self.told.append((era, revision))

    async def close(self) -> None:
        self.closed += 1
        if self.lingers is not None:
            await self.lingers.wait()

    def put(self, arrived: bytes | ResponseStreamMessage | RequestFailed | Exception) -> None:
        """Let something arrive as it is."""
        self._arrived.put_nowait(arrived)

    def say(self, message: Message) -> None:
        """Let a message arrive."""
        self.put(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def answer(self, asked: Message, result: object) -> None:
        """Let the answer to a request arrive."""
        self.say({"id": asked["id"], "result": result})

    def end(self, reason: str = "it ended") -> None:
        """Let the connection end."""
        self.put(TransportEnded(reason))

    def lose(self, asked: Message, failure: Unavailable) -> None:
        """Let a single request get lost."""
        self.put(RequestFailed(asked["id"], failure))

    def last(self, method: str) -> Message:
        """The last message sent with this method."""
        return next(message for message in reversed(self.sent) if message.get("method") == method)
