"""Reads large bodies into a reusable buffer, without copying.

With an ordinary protocol, the event loop copies the data of each read into a new bytes object.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

SIZE: Final = 300 * 1024
"""Bytes of a piece. Twice as many did not make it faster.

Not a power of two: with 256 KiB, 1 MB took a quarter longer, presumably because pieces and the kernel's
copies then collide in the processor's cache.
"""


class Reader(Protocol):
    """The connection that reads the body."""

    def piece_received(self, piece: memoryview) -> None:
        """Take a piece, which is valid during this call only; copy the rest that is not written at once."""

    def pause_writing(self) -> None:
        """As in `asyncio.BaseProtocol`."""

    def resume_writing(self) -> None:
        """As in `asyncio.BaseProtocol`."""

    def eof_received(self) -> None:
        """As in `asyncio.BaseProtocol`."""

    def connection_lost(self, exc: Exception | None) -> None:
        """As in `asyncio.BaseProtocol`."""


_SPARE: Final = 4
"""Buffers kept for the next large bodies, since a new buffer must be filled with zeros."""
_spare: Final[list[bytearray]] = []


class ReadBuffer(asyncio.BufferedProtocol):
    """Replaces the connection as the protocol of its transport while it reads a large body."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._buffer = _spare.pop() if _spare else _new_buffer()

    def close(self) -> None:
        """Keep the buffer for another body, although the last piece may still be in use."""
        if len(_spare) < _SPARE:
            _spare.append(self._buffer)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Called by the loop before it reads."""
        try:
            self._buffer.append(0)  # fails if a memoryview of the buffer exists; undone below
        except BufferError:  # part of the last piece waits to be written
            self._buffer = _new_buffer()
        else:
            self._buffer.pop()
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the loop after it has read."""
        self._reader.piece_received(memoryview(self._buffer)[:nbytes])

    def pause_writing(self) -> None:
        """Called by the transport."""
        self._reader.pause_writing()

    def resume_writing(self) -> None:
        """Called by the transport."""
        self._reader.resume_writing()

    def eof_received(self) -> None:
        """Called by the loop when the server has closed its side."""
        self._reader.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop, once."""
        self._reader.connection_lost(exc)


def _new_buffer() -> bytearray:
    buffer = bytearray(SIZE + 1)
    buffer.pop()  # leaves capacity for the append in `get_buffer`
    return buffer
