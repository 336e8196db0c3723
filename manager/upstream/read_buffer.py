"""Reads large bodies into a buffer of our own, so that nothing is copied on the way.

By itself the loop reads into a buffer of its own, and copies every read into a new object.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

SIZE: Final = 300 * 1024
"""Bytes of a piece. Each costs a read and a write, but twice as many bytes bring nothing more.

No power of two: with 256 KiB a megabyte took a quarter longer, presumably because pieces and what the kernel
copies fall on the same places of the processor's cache then.
"""


class Reader(Protocol):
    """The connection."""

    def piece_received(self, piece: memoryview) -> None:
        """Take a piece, which is only lent: what is not written from it now has to be copied."""

    def pause_writing(self) -> None: ...  # noqa: D102  as of any protocol of the loop's

    def resume_writing(self) -> None: ...  # noqa: D102

    def eof_received(self) -> None: ...  # noqa: D102

    def connection_lost(self, exc: Exception | None) -> None: ...  # noqa: D102


_SPARE: Final = 4
"""Buffers that are kept for the next large body: a new one is filled with zeros."""
_spare: Final[list[bytearray]] = []


class ReadBuffer(asyncio.BufferedProtocol):
    """Stands before a connection while it reads a large body."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._buffer = _spare.pop() if _spare else _made()

    def close(self) -> None:
        """The body is read; somebody may still look into the last piece."""
        if len(_spare) < _SPARE:
            _spare.append(self._buffer)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Called by the loop before it reads."""
        try:
            self._buffer.append(0)  # nobody can see this
        except BufferError:  # somebody looks into it: some of the last piece waits to be written
            self._buffer = _made()
        else:
            self._buffer.pop()
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the loop when it has read."""
        self._reader.piece_received(memoryview(self._buffer)[:nbytes])

    def pause_writing(self) -> None:
        """Called by the transport."""
        self._reader.pause_writing()

    def resume_writing(self) -> None:
        """Called by the transport."""
        self._reader.resume_writing()

    def eof_received(self) -> None:
        """Called by the loop: the other end sends no more."""
        self._reader.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop, once."""
        self._reader.connection_lost(exc)


def _made() -> bytearray:
    buffer = bytearray(SIZE + 1)
    buffer.pop()  # so that there is room to append something
    return buffer
