"""Defines the transport that a session needs: `stdio/transport.py` and `remote/transport.py` implement it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lm_tools_bridge.protocol.names import Era
from workspace_server.sources.mcp.failures import Unavailable


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """The request with this id failed, while the connection stays open (one HTTP request failed)."""

    id: int
    failure: Unavailable


@dataclass(frozen=True, slots=True)
class ResponseStreamMessage:
    """A message that came on the response stream of the request with this id, before the response (HTTP)."""

    id: int
    text: bytes


class Transport(Protocol):
    """A connection to one MCP server, for one session.

    `Session.open` takes ownership of a transport and closes it.
    """

    async def send(self, message: bytes) -> None:
        """Send one JSON-RPC message, without a newline at its end. Does not wait for its answer.

        Raises:
            Unavailable: this message was not sent; the connection lives on.
            TransportEnded: the connection is over, and the message was not delivered as a whole.
        """

    async def receive(self) -> bytes | ResponseStreamMessage | RequestFailed:
        """The next text that may be a message; the session counts any other text as invalid output.

        Called again only after the previous text was handled.

        Raises:
            TransportEnded: there will be no more.
        """

    def negotiated(self, era: Era, revision: str) -> None:
        """Called with the negotiated revision before the next message (HTTP headers need it)."""

    async def close(self) -> None:
        """End the connection and everything that belongs to it. Idempotent, in bounded time."""
