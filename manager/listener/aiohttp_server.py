"""A server of aiohttp's that is made when the first connection needs it; what comes meanwhile waits for it.

To load the library takes as long as all the rest of the start, and a third of the memory, and clients of MCP
never need it. It is loaded in a thread, so that calls go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from host.blocked_import import blocked_import
from manager.log import logger
from manager.routing.request_heads.admission import AdmissionRefusal
from manager.routing.request_heads.response_head import render_refusal

if TYPE_CHECKING:
    from aiohttp import web

_BROKEN: Final = AdmissionRefusal(
    500,
    "a part of the manager cannot be loaded, maybe since another version was installed; start it anew",
)


class LazyAiohttpServer:
    """Makes protocols, as a server does, and the server first where there is none yet."""

    def __init__(self, make: Callable[[], web.AppRunner]) -> None:
        """`make` is called in a thread, with the library loaded. Where that fails, it is tried again."""
        self._make = make
        self._runner: web.AppRunner | None = None
        self._making: asyncio.Task[None] | None = None
        self._waiting: list[_Waiting] = []

    def protocol(self) -> asyncio.Protocol:
        """A protocol for one connection."""
        if self._runner is not None and self._runner.server is not None:
            return self._runner.server()
        if self._making is None:
            self._making = asyncio.get_running_loop().create_task(self._load(), name="late server")
        one = _Waiting()
        self._waiting.append(one)
        return one

    async def close(self) -> None:
        """End all connections; what is being answered gets its time first."""
        if self._making is not None:
            await self._making
        if self._runner is not None:
            await self._runner.cleanup()

    async def _load(self) -> None:
        try:
            runner = await asyncio.to_thread(self._made)
            await runner.setup()
        except Exception as fault:  # noqa: BLE001  whatever it is: another request may fare better
            logger().error("pages.failed", fault=repr(fault))
            self._making = None
        else:
            self._runner = runner
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if self._runner is None or self._runner.server is None:
                one.refuse()
            else:
                one.begin(self._runner.server())

    def _made(self) -> web.AppRunner:
        # At its import aiohttp would make contexts for encrypted connections, and read all the system's
        # certificates for them. None of ours is encrypted. What it takes along is for others, too: it is
        # loaded before.
        import urllib.request  # noqa: F401, PLC0415

        with blocked_import("ssl"):
            import aiohttp.web  # noqa: F401, PLC0415
        return self._make()


class _Waiting(asyncio.Protocol):
    """A connection that waits for its protocol, and passes everything on to it afterwards."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._came: list[bytes] = []
        self._own: asyncio.Protocol | None = None

    def begin(self, own: asyncio.Protocol) -> None:
        """Here it is."""
        transport, came, self._came = self._transport, self._came, []
        if transport is None or transport.is_closing():
            return
        self._own = own
        own.connection_made(transport)
        if came:
            transport.resume_reading()
        for data in came:
            own.data_received(data)

    def refuse(self) -> None:
        """There is none."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(render_refusal(_BROKEN, None))
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Keep it, and take no more for now; or pass it on."""
        if self._own is not None:
            self._own.data_received(data)
        elif self._transport is not None:
            self._came.append(data)
            self._transport.pause_reading()

    def eof_received(self) -> bool | None:
        """The peer has finished sending; where it has sent something, that is seen later."""
        return None if self._own is None else self._own.eof_received()

    def pause_writing(self) -> None:
        """The peer reads slowly."""
        if self._own is not None:
            self._own.pause_writing()

    def resume_writing(self) -> None:
        """It has caught up."""
        if self._own is not None:
            self._own.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        self._transport, self._came = None, []
        if self._own is not None:
            self._own.connection_lost(exc)
