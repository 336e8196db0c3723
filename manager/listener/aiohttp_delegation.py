"""A request that is the server's: the connection is lent to a protocol of aiohttp's for this one request.

The protocol reads the bytes as they came and writes its answer itself. How long the request is was read from
its head before (`connection.py`), so that what follows it is never the server's.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast


class DelegatedRequest:
    """One such request.

    Attributes:
        server: the protocol that serves it.
        is_chunked: whether nobody here can tell where its body ends.
        missing: bytes of its body that have not come.
    """

    def __init__(self, server: asyncio.Protocol, transport: asyncio.Transport, length: int | None) -> None:
        self.server = server
        self.is_chunked = length is None
        self.missing = length or 0
        self._loan = _Loan(transport)
        server.connection_made(cast("asyncio.Transport", self._loan))

    def take(self, data: bytes) -> bytes:
        """Pass on what belongs to the request, and return the rest."""
        own = len(data) if self.is_chunked else min(len(data), self.missing)
        if not self.is_chunked:
            self.missing -= own
        if own:
            self.server.data_received(data[:own])
        return data[own:]

    def dismiss(self) -> None:
        """The request is answered: from the server's side, the connection has ended."""
        self._loan.is_over = True
        self.server.connection_lost(None)


class _Loan:
    """The connection as the server has it for one request; afterwards it is not the server's to close."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.is_over = False
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        """Close it, while it is lent."""
        if not self.is_over:
            self._transport.close()

    def abort(self) -> None:
        """Cut it off, while it is lent."""
        if not self.is_over:
            self._transport.abort()
