"""The writing side of a line, whatever it is made of."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Pipe(Protocol):
    """The writing side of the line."""

    def write(self, data: bytes) -> None:
        """Write, or buffer."""

    def get_write_buffer_size(self) -> int:
        """Bytes that are buffered."""

    def abort(self) -> None:
        """Close at once."""


class TransportPipe:
    """A transport of asyncio as a pipe."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        """Write, or buffer."""
        self._transport.write(data)

    def get_write_buffer_size(self) -> int:
        """Bytes that are buffered."""
        return self._transport.get_write_buffer_size()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()
