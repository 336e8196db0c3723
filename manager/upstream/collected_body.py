"""Collects a body: in one block where its length is known, since many pieces would leave holes in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

BLOCK: Final = 64 * 1024
"""Bytes from which a body gets a block of its own."""


class CollectedBody:
    """A body that is being collected.

    Args:
        length: bytes of the whole body; 0 if it is not known.

    Attributes:
        size: bytes so far.
    """

    __slots__ = ("_block", "_pieces", "size")

    def __init__(self, length: int) -> None:
        self.size = 0
        self._block = bytearray(length) if length > BLOCK else None
        self._pieces: list[bytes] = []

    def add(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Add the next pieces, which may be valid during this call only."""
        for piece in pieces:
            if self._block is None:
                self._pieces.append(bytes(piece))
            else:
                self._block[self.size : self.size + len(piece)] = piece
            self.size += len(piece)

    def whole(self) -> bytes:
        """What was collected."""
        if self._block is not None:
            return bytes(memoryview(self._block)[: self.size])
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
