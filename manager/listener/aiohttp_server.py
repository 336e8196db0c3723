"""Loads aiohttp's server soon after the start; connections that need it earlier wait meanwhile.

aiohttp takes half of the start-up time, and MCP clients never need it. It is loaded in a thread, so that
calls go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from lm_tools_bridge.machine.blocked_import import blocked_import
from manager.log import logger
from manager.routing.admission import AdmissionRefusal, render_refusal

if TYPE_CHECKING:
    from aiohttp import web

_BROKEN: Final = AdmissionRefusal(
    500,
    "a part of the manager cannot be loaded, perhaps because another version was installed; "
    "restart the manager",
)


class LazyAiohttpServer:
    """Makes protocols of a server that is created for the first of them."""

    def __init__(self, make: Callable[[], web.AppRunner]) -> None:
        """`make` is called in a thread, with aiohttp loaded; again for the next connection if it fails."""
        self._make = make
        self._runner: web.AppRunner | None = None
        self._loading: asyncio.Task[None] | None = None
        self._pending: list[_PendingProtocol] = []

    def protocol(self) -> asyncio.Protocol:
        """Make a protocol for one connection."""
        if self._runner is not None and self._runner.server is not None:
            return self._runner.server()
        self._begin()
        one = _PendingProtocol()
        self._pending.append(one)
        return one

    async def load(self) -> None:
        """Load it before the first connection needs it."""
        if self._runner is None:
            await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Task[None]:
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load(), name="load aiohttp")
        return self._loading

    async def close(self) -> None:
        """Close all connections; requests under way may finish first."""
        if self._loading is not None:
            await self._loading
        if self._runner is not None:
            await self._runner.cleanup()

    async def _load(self) -> None:
        try:
            runner = await asyncio.to_thread(self._make_runner)
            await runner.setup()
        except Exception as fault:  # noqa: BLE001  whatever it is, the next request tries again
            logger().error("pages.failed", why=repr(fault), exc_info=fault)
            self._loading = None
        else:
            self._runner = runner
        pending, self._pending = self._pending, []
        for one in pending:
            if self._runner is None or self._runner.server is None:
                one.refuse()
            else:
                one.begin(self._runner.server())

    def _make_runner(self) -> web.AppRunner:
        # At its import aiohttp creates TLS contexts, and reads all the system's certificates for them. No
        # connection here is encrypted, so `ssl` is hidden from it. Others need urllib.request with `ssl`: it
        # is imported before.
        import urllib.request  # noqa: F401, PLC0415  with `ssl`

        with blocked_import("ssl"):
            import aiohttp.web  # noqa: F401, PLC0415  without `ssl`
        return self._make()


class _PendingProtocol(asyncio.Protocol):
    """Buffers what a connection receives until its protocol exists, and passes everything on afterwards."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received: list[bytes] = []
        self._protocol: asyncio.Protocol | None = None

    def begin(self, protocol: asyncio.Protocol) -> None:
        """Pass everything to this protocol from now on."""
        transport, received, self._received = self._transport, self._received, []
        if transport is None or transport.is_closing():
            return
        self._protocol = protocol
        protocol.connection_made(transport)
        if received:
            transport.resume_reading()
        for data in received:
            protocol.data_received(data)

    def refuse(self) -> None:
        """Write a refusal: aiohttp could not be loaded."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(render_refusal(_BROKEN, None))
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass the bytes on, or keep them and pause reading."""
        if self._protocol is not None:
            self._protocol.data_received(data)
        elif self._transport is not None:
            self._received.append(data)
            self._transport.pause_reading()

    def eof_received(self) -> bool | None:
        """Pass it on; without a protocol, the connection closes."""
        return None if self._protocol is None else self._protocol.eof_received()

    def pause_writing(self) -> None:
        """Pass it on."""
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        if self._protocol is not None:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop what was received, and pass it on."""
        self._transport, self._received = None, []
        if self._protocol is not None:
            self._protocol.connection_lost(exc)
