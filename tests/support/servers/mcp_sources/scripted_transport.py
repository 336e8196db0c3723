"""A transport whose server is a function, for tests of sessions without processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from lm_tools_bridge.protocol.names import Era
from workspace_server.sources.mcp.failures import TransportEnded, Unavailable
from workspace_server.sources.mcp.rpc.transport import RequestFailed, ResponseStreamMessage

Message = dict[str, Any]
INITIALIZE_RESULT: Message = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "scripted", "version": "1"},
    "instructions": "be kind",
}


class ScriptedTransport:
    """A transport; `serve(transport, message)` handles each message, except a handshake with `handshake_result`.

    Attributes:
        sent: every message, decoded.
        negotiations: the arguments of each call of `negotiated`.
        closed: how often it was closed.
        close_gate: `close` waits for this event.
        send_error: the exception that `send` raises.
    """

    def __init__(
        self,
        serve: Callable[[ScriptedTransport, Message], None] | None = None,
        handshake_result: Message | None = None,
    ) -> None:
        self.sent: list[Message] = []
        self.negotiations: list[tuple[Era, str]] = []
        self.closed = 0
        self.close_gate: asyncio.Event | None = None
        self.send_error: Exception | None = None
        self._serve = serve
        self._handshake_result = INITIALIZE_RESULT if handshake_result is None else handshake_result
        self._arrived: asyncio.Queue[bytes | ResponseStreamMessage | RequestFailed | Exception] = (
            asyncio.Queue()
        )

    async def send(self, message: bytes) -> None:
        if self.send_error is not None:
            raise self.send_error
        decoded = json.loads(message)
        self.sent.append(decoded)
        if decoded.get("method") == "initialize" and self._handshake_result:
            self.answer(decoded, self._handshake_result)
        elif self._serve is not None:
            self._serve(self, decoded)

    async def receive(self) -> bytes | ResponseStreamMessage | RequestFailed:
        arrived = await self._arrived.get()
        if isinstance(arrived, Exception):
            raise arrived
        return arrived

    def negotiated(self, era: Era, revision: str) -> None:
        self.negotiations.append((era, revision))

    async def close(self) -> None:
        self.closed += 1
        if self.close_gate is not None:
            await self.close_gate.wait()

    def put(self, arrived: bytes | ResponseStreamMessage | RequestFailed | Exception) -> None:
        """Makes `receive` return this as it is, or raise it."""
        self._arrived.put_nowait(arrived)

    def deliver(self, message: Message) -> None:
        """Makes `receive` return a message."""
        self.put(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def answer(self, request: Message, result: object) -> None:
        """Makes `receive` return the response to a request."""
        self.deliver({"id": request["id"], "result": result})

    def end(self, reason: str = "it ended") -> None:
        """Ends the connection."""
        self.put(TransportEnded(reason))

    def fail_request(self, request: Message, failure: Unavailable) -> None:
        """Makes a single request fail."""
        self.put(RequestFailed(request["id"], failure))

    def last(self, method: str) -> Message:
        """Returns the last message sent with this method."""
        return next(message for message in reversed(self.sent) if message.get("method") == method)
