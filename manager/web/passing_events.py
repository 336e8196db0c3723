"""A workspace server's event stream on its way through: cut between events only, ended where it has to be.

Its bytes stay as they are. Who writes them, and what is said where no response came, is `writer.py`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import Final

from manager.answers.collect import is_response
from manager.answers.exchange import Ending
from protocol import sse

_LONGEST_BOUNDARY: Final = b"\r\n\r\n"
_BOUNDARIES: Final = (b"\n\n", _LONGEST_BOUNDARY, b"\r\r")
_HAS_DATA: Final = re.compile(rb"(?:^|[\r\n])data")


async def until(chunks: AsyncGenerator[bytes], ending: Ending | None) -> AsyncGenerator[bytes]:
    """The pieces of a body, until it ends or is to be ended."""
    if ending is None:
        async for chunk in chunks:
            yield chunk
        return
    over = asyncio.create_task(ending.event.wait(), name="stream ending")
    try:
        while True:
            following = asyncio.ensure_future(anext(chunks, b""))
            try:
                await asyncio.wait({following, over}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not following.done():
                    following.cancel()
                    await asyncio.wait({following})
            if following.cancelled() or not (chunk := following.result()):
                return
            yield chunk
    finally:
        over.cancel()


class WholeEvents:
    """Cuts a stream's bytes between events, and remembers the last ones to know whether it was answered."""

    def __init__(self) -> None:
        self._tail = bytearray()
        self._last = b""

    @property
    def waiting(self) -> int:
        """Bytes of the event that is not complete yet."""
        return len(self._tail)

    @property
    def end_in_response(self) -> bool:
        """Whether a response was among the last events."""
        return any(is_response(one.data) for one in sse.Decoder(len(self._last)).feed(self._last))

    def take(self, chunk: bytes) -> bytes:
        """Take the next bytes, and return all events that are complete now."""
        searched = max(0, len(self._tail) - len(_LONGEST_BOUNDARY))
        self._tail += chunk
        end = max(
            (found + len(one) for one in _BOUNDARIES if (found := self._tail.rfind(one, searched)) >= 0),
            default=0,
        )
        whole = bytes(memoryview(self._tail)[:end])
        del self._tail[:end]
        if _HAS_DATA.search(whole):
            self._last = whole
        return whole
