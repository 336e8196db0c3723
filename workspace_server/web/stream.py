"""The response to one POST: plain JSON, unless something has to be sent before the result (row M15)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from protocol import jsonrpc, sse

EVENT_HEADERS: Final = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


class Stream:
    """Becomes a stream of server-sent events with the first thing that is sent; `finish` ends either form."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._response: web.StreamResponse | None = None
        self._lock = asyncio.Lock()
        self._finished = False

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification; one that comes after the result goes nowhere."""
        await self._write(sse.encode(sse.single_line(jsonrpc.notification(method, params))))

    async def keep_alive(self) -> None:
        """Send a comment, so that nobody in between takes the stream for dead."""
        await self._write(sse.KEEP_ALIVE)

    async def finish(self, status: int, body: bytes) -> web.StreamResponse:
        """Send the JSON-RPC answer; `status` counts only if nothing was sent before."""
        async with self._lock:
            self._finished = True
            if self._response is None:
                return web.Response(status=status, body=body, content_type="application/json")
            await self._response.write(sse.encode(sse.single_line(body)))
            await self._response.write_eof()
            return self._response

    async def close(self) -> web.StreamResponse:
        """End a stream of comments, which has no result."""
        async with self._lock:
            self._finished = True
            if self._response is None:
                return web.Response(status=204)
            await self._response.write_eof()
            return self._response

    async def _write(self, data: bytes) -> None:
        async with self._lock:
            if self._finished:
                return
            if self._response is None:
                self._response = web.StreamResponse(headers=EVENT_HEADERS)
                await self._response.prepare(self._request)
            await self._response.write(data)
