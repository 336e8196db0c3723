"""The response to one POST: JSON, or server-sent events if something is sent before the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lm_tools_bridge.protocol import jsonrpc, sse
from lm_tools_bridge.protocol.internal.call_timing import CallTiming
from lm_tools_bridge.protocol.internal.result_trim import ResultTrim
from workspace_server.http.request import HttpRequest, trim_fields

EVENTS: Final = "text/event-stream"
EVENT_FIELDS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Stream:
    """Becomes an event stream when something is sent before the result; `finish` ends either form."""

    __slots__ = ("_http_request", "_is_finished")

    def __init__(self, http_request: HttpRequest) -> None:
        self._http_request = http_request
        self._is_finished = False

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification; one after the result is dropped."""
        await self._write(sse.encode(sse.single_line(jsonrpc.notification(method, params))))

    async def keep_alive(self) -> None:
        """Send a comment, so that no proxy closes the stream as idle."""
        await self._write(sse.KEEP_ALIVE)

    async def finish(
        self, status: int, body: bytes, trim: ResultTrim | None = None, timing: CallTiming | None = None
    ) -> None:
        """Send the JSON-RPC response; `status` is used only if nothing was sent before."""
        self._is_finished = True
        took = b"" if timing is None else timing.line
        if not self._http_request.is_begun:
            self._http_request.respond(status, body, trim_fields(trim), last_line=took)
            return
        comment = None if trim is None else trim.comment
        self._http_request.finish(sse.encode(sse.single_line(body), comment=comment), took)

    def close(self) -> None:
        """End a stream without a result."""
        self._is_finished = True
        self._http_request.finish()

    async def _write(self, data: bytes) -> None:
        if self._is_finished:
            return
        if not self._http_request.is_begun:
            self._http_request.start(200, EVENT_FIELDS, EVENTS)
        await self._http_request.write(data)
