"""Throttles reading from a server that floods us with unsolicited messages.

While reading pauses, the server's pipe fills and the server waits. Responses to requests are not throttled.
"""

from __future__ import annotations

import asyncio
from typing import Final

MESSAGE_S: Final = 10e-6
BYTE_S: Final = 2e-9
"""About what it takes to read a message, and a byte of it; counted instead of measured."""
BURST_S: Final = 0.002
REST: Final = 9
"""So many times as long as it was read it then rests: it gets a tenth of the loop's time at most."""


class ReadThrottle:
    """The time that one connection has used."""

    def __init__(self) -> None:
        self._spent = 0.0

    async def unsolicited(self, size: int) -> None:
        """A message of so many bytes was read that nobody waited for: rest, if it was time."""
        self._spent += MESSAGE_S + size * BYTE_S
        if self._spent >= BURST_S:
            rest, self._spent = self._spent * REST, 0.0
            await asyncio.sleep(rest)
