"""Defines the transport that a session needs: `stdio/transport.py` and `remote/transport.py` implement it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from protocol.versions import Era
from workspace_server.sources.mcp.failures import Unavailable


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """The request with this id got no answer, while the connection lives on (one HTTP exchange failed)."""

    id: int
    failure: Unavailable


@dataclass(frozen=True, slots=True)
class ResponseStreamMessage:
    """A text that came on the answer to the request with this id, in front of it (HTTP)."""

    id: int
    text: bytes


class Transport(Protocol):
    """One connection to one MCP server; made anew for each session.

    Whoever makes a transport hands it to `Session.open`, which owns it from then on and closes it.
    """

    async def send(self, message: bytes) -> None:
        """Send one JSON-RPC message, without a newline at its end. Does not wait for its answer.

        Raises:
            Unavailable: this message was not sent; the connection lives on.
            TransportEnded: the connection is over, and the message was not delivered as a whole.
        """

    async def receive(self) -> bytes | ResponseStreamMessage | RequestFailed:
        """The next text that may be a message; what is none is counted as junk by the session.

        Asked again only after the text before it was dealt with.

        Raises:
            TransportEnded: there will be no more.
        """

    def negotiated(self, era: Era, revision: str) -> None:
        """The server was found to speak this; told before the next message (HTTP headers need it)."""

    async def close(self) -> None:
        """End the connection and everything that belongs to it. Idempotent, in bounded time."""
