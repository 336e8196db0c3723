"""The time one call may take: it does not run while a person is being asked."""

from __future__ import annotations

import asyncio
from types import TracebackType

import msgspec
from msgspec.structs import replace

from workspace_server.call_context import CallContext
from workspace_server.tool import RpcError


class Deadline:
    """Bounds a block to so many seconds, not counting those in which its context asks the caller.

    `async with Deadline(seconds, context) as (context, limit)`: the block works with this context, and raises
    `TimeoutError` when its time ran out; `limit.expired()` tells that from other ones.
    """

    def __init__(self, seconds: float, context: CallContext) -> None:
        self._limit = asyncio.timeout(seconds)
        self._context = context
        self._asking = 0
        self._left = 0.0
        self._over = False

    async def __aenter__(self) -> tuple[CallContext, asyncio.Timeout]:
        await self._limit.__aenter__()
        return replace(self._context, ask=self._ask), self._limit

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        await self._limit.__aexit__(kind, error, trace)

    async def _ask(self, method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
        self._asking += 1
        if self._asking == 1:
            self._pause()
        try:
            return await self._context.ask(method, params)
        finally:
            self._asking -= 1
            if not self._asking:
                self._go_on()

    def _pause(self) -> None:
        when = self._limit.when()
        if when is not None and self._is_running():
            self._left = when - asyncio.get_running_loop().time()
            self._limit.reschedule(None)

    def _go_on(self) -> None:
        if self._limit.when() is None and self._is_running():
            self._limit.reschedule(asyncio.get_running_loop().time() + self._left)

    def _is_running(self) -> bool:
        """What a source asks may reach us when its call is over already."""
        return not self._over and not self._limit.expired()
