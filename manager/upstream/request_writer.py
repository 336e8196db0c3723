"""Writes requests to a connection, a large body in pieces and only as fast as the server reads."""

from __future__ import annotations

import asyncio
from typing import Final

JOINED_WRITE: Final = 64 * 1024
"""Bytes of a request from which its body is not joined to its head, but written in pieces of PIECE bytes."""
PIECE: Final = 256 * 1024
_NOTHING: Final = memoryview(b"")


class RequestWriter:
    """Writes one request at a time.

    Attributes:
        unsent: The rest of the body that the transport has not accepted yet.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._is_paused = False
        self.unsent = _NOTHING

    def write(self, head: bytes, body: bytes) -> None:
        """Write a request, or as much of it as the transport accepts now."""
        if len(head) + len(body) < JOINED_WRITE:
            self._transport.write(head + body)
            return
        view = memoryview(body)
        self.unsent = view[PIECE:]
        self._transport.writelines((head, view[:PIECE]))
        self._write_more()

    def pause(self) -> None:
        """Write no more: the server reads more slowly than we write."""
        self._is_paused = True

    def resume(self) -> None:
        """Go on writing."""
        self._is_paused = False
        self._write_more()

    def drop(self) -> None:
        """Forget what is unsent."""
        self.unsent = _NOTHING

    def _write_more(self) -> None:
        while self.unsent and not self._is_paused and not self._transport.is_closing():
            piece, self.unsent = self.unsent[:PIECE], self.unsent[PIECE:]
            self._transport.write(piece)
