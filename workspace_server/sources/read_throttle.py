"""Throttles reading from a server that floods us with unsolicited messages.

While reading pauses, the server's pipe fills and the server waits. Responses to requests are not throttled.
"""

from __future__ import annotations

import asyncio
from typing import Final

MESSAGE_S: Final = 10e-6  # a message is parsed and its owner looked up
BYTE_S: Final = 2e-9
"""Estimated time to read a message, and one byte of it."""
# A pause of the loop that no other call notices; shorter rests would cost more than they spare.
BURST_S: Final = 0.002
REST: Final = 9
"""Pause per reading time: such a server gets at most a tenth of the event loop's time."""


class ReadThrottle:
    """Measures the reading time of one connection's unsolicited messages."""

    def __init__(self) -> None:
        self._spent = 0.0

    async def unsolicited(self, size: int) -> None:
        """Count an unsolicited message of `size` bytes, and pause when the budget is used up."""
        self._spent += MESSAGE_S + size * BYTE_S
        if self._spent >= BURST_S:
            rest, self._spent = self._spent * REST, 0.0
            await asyncio.sleep(rest)
