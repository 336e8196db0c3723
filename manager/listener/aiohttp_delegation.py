"""Delegates one request to a protocol of aiohttp, which reads its bytes and writes its response.

The length of the request is known from its head, so the protocol never gets bytes of the next request.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast


class DelegatedRequest:
    """One request that aiohttp serves.

    Attributes:
        server: the protocol that serves it.
        is_chunked: whether the body is chunked, so that only the protocol notices its end.
        missing: bytes of the body that have not been received.
    """

    def __init__(self, server: asyncio.Protocol, transport: asyncio.Transport, length: int | None) -> None:
        self.server = server
        self.is_chunked = length is None
        self.missing = length or 0
        self._transport = _LentTransport(transport)
        server.connection_made(cast("asyncio.Transport", self._transport))

    def take(self, data: bytes) -> bytes:
        """Pass on what belongs to the request, and return the rest."""
        own = len(data) if self.is_chunked else min(len(data), self.missing)
        if not self.is_chunked:
            self.missing -= own
        if own:
            self.server.data_received(data[:own])
        return data[own:]

    def dismiss(self) -> None:
        """Tell the protocol that its connection has ended: the request is answered."""
        self._transport.is_returned = True
        self.server.connection_lost(None)


class _LentTransport:
    """The transport as the protocol sees it. After `dismiss` the protocol can no longer close it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.is_returned = False
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        """Close the transport while it is lent."""
        if not self.is_returned:
            self._transport.close()

    def abort(self) -> None:
        """Abort the transport while it is lent."""
        if not self.is_returned:
            self._transport.abort()
