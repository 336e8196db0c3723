"""Whether a client keeps up with what is written to it, and the waiting until it does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Room:
    """Told by the transport, asked by who writes."""

    __slots__ = ("_coming",)

    def __init__(self) -> None:
        self._coming: asyncio.Future[None] | None = None

    @property
    def is_short(self) -> bool:
        """Whether the client does not keep up."""
        return self._coming is not None

    def shrink(self) -> None:
        """The client reads more slowly than we write."""
        if self._coming is None:
            self._coming = asyncio.get_running_loop().create_future()

    def grow(self, fault: Exception | None = None) -> None:
        """The client has caught up, or never will."""
        coming, self._coming = self._coming, None
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
