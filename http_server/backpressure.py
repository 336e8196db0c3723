"""Whether a client keeps up with what is written to it, and the waiting until it does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Room:
    """Told by the transport, asked by who writes.

    Attributes:
        is_short: whether the client does not keep up.
    """

    __slots__ = ("_coming", "is_short")

    def __init__(self) -> None:
        self._coming: asyncio.Future[None] | None = None
        self.is_short = False

    def shrink(self) -> None:
        """The client reads more slowly than we write."""
        if self._coming is None:
            self._coming = asyncio.get_running_loop().create_future()
            self.is_short = True

    def grow(self, fault: Exception | None = None) -> None:
        """The client has caught up, or never will."""
        coming, self._coming, self.is_short = self._coming, None, False
        if coming is None:
            return
        if fault is None:
            coming.set_result(None)
        else:
            coming.set_exception(fault)
            coming.exception()  # seen: perhaps nobody waits

    def then(self, call: Callable[[], None]) -> None:
        """Call this when the client keeps up, or never will; soon where it does."""
        if self._coming is None:
            asyncio.get_running_loop().call_soon(call)
        else:
            self._coming.add_done_callback(lambda _: call())

    async def wait(self) -> None:
        """Return when the client keeps up.

        Raises:
            Exception: what `grow` was told.
        """
        if self._coming is not None:
            await asyncio.shield(self._coming)
