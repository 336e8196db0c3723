"""Accepts connections of the manager; defines a request on one, and its response: JSON or an event stream."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from lm_tools_bridge.http_server.byte_budget import ByteBudget
from lm_tools_bridge.http_server.connection import HttpConnection
from lm_tools_bridge.http_server.deadline import Deadlines
from lm_tools_bridge.http_server.limits import Limits
from lm_tools_bridge.http_server.open_connections import Connections as OpenConnections
from lm_tools_bridge.http_server.open_connections import ServerContext
from lm_tools_bridge.http_server.refusal import AdmissionRefusal
from lm_tools_bridge.http_server.request import JSON, BaseRequest, ResponseConnection
from lm_tools_bridge.http_server.request_head import ReadHead, RequestHead
from lm_tools_bridge.http_server.response_head import fixed_lines, render_head
from lm_tools_bridge.protocol import headers, jsonrpc, sse
from lm_tools_bridge.protocol.internal.call_reports import CallTiming
from lm_tools_bridge.protocol.internal.result_trim import ResultTrim
from workspace_server.http.request_head import MAX_BODY, Admission, ManagerHead, ManagerHeadReader, trace_of


class HttpRequest(BaseRequest):
    """A request and its response.

    Attributes:
        head: of the request.
        is_known: whether an equal head was received before.
    """

    __slots__ = ("_raw_head", "head", "is_known")

    fixed_lines = staticmethod(fixed_lines(()))
    has_date = False

    def __init__(
        self, connection: ResponseConnection, read: ReadHead[ManagerHead], raw_head: bytes, body: bytes
    ) -> None:
        super().__init__(connection, read.head.framing, body)
        self.head = read.head
        self.is_known = read.is_known
        self._raw_head = raw_head

    @property
    def trace(self) -> str:
        """The trace context that the manager made for it; empty for none."""
        return trace_of(self._raw_head)


@lru_cache(maxsize=64)
def trim_fields(trim: ResultTrim | None) -> Mapping[str, str]:
    """The header field that says what of a result clients with sessions do not get."""
    return {} if trim is None else {headers.RESULT_TRIM: trim.value}


# The manager opens its connections at once after a restart, when this process may be busy for 0.1 s.
BACKLOG: Final = 512
IDLE_S: Final = 3600.0
"""The manager keeps idle connections for reuse; closing one while it sends would lose a call."""
LIMITS: Final = Limits(first_s=IDLE_S, keepalive_s=IDLE_S, shutdown_s=2.0, connections=None)


class Connections(OpenConnections):
    """The open connections of one workspace server.

    Args:
        secret: of the instance; requests without it are refused.
        handle: answers a request; work that takes time goes into `HttpRequest.run`.
    """

    def __init__(self, secret: str, handle: Callable[[HttpRequest], None]) -> None:
        super().__init__(LIMITS)
        self._secret = secret
        self._handle = handle
        self._listener: asyncio.Server | None = None

    async def listen(self, sock: socket.socket) -> None:
        """Accept connections on a socket that is bound to 127.0.0.1, until `close`."""
        loop = asyncio.get_running_loop()
        heads = ManagerHeadReader(Admission(sock.getsockname()[1], self._secret))
        server = ServerContext(heads, MAX_BODY, self, Deadlines(loop), ByteBudget())

        def connect() -> ManagerConnection:
            return ManagerConnection(server, self._handle)

        self._listener = await loop.create_server(connect, sock=sock, backlog=BACKLOG)

    def stop_listening(self) -> None:
        """Accept no more: another process may do so on the same socket. Idempotent."""
        if self._listener is not None:
            self._listener.close()

    async def close(self) -> None:
        """Stop to accept, then close all connections; requests under way get 2 s. Idempotent."""
        self.stop_listening()
        await super().close()


class ManagerConnection(HttpConnection[ManagerHead]):
    """One connection; `handle` answers each request, at once or in a task."""

    __slots__ = ("_handle",)

    def __init__(self, server: ServerContext[ManagerHead], handle: Callable[[HttpRequest], None]) -> None:
        super().__init__(server)
        self._handle = handle

    def serve(self, read: ReadHead[ManagerHead], body: bytes) -> None:
        """Hand the request to the routes."""
        request = HttpRequest(self, read, self.parser.raw_head, body)
        self.start_serving(request)
        self._handle(request)

    def render_refusal(self, refusal: AdmissionRefusal, head: RequestHead | None) -> bytes:
        """Render a refusal as a JSON-RPC error without an id, because no message was read."""
        body = jsonrpc.error(None, refusal.code, refusal.reason)
        length = ("Content-Length", str(len(body)))
        fields = [("Content-Type", JSON), length, ("Connection", "close"), *refusal.headers]
        rendered = render_head(refusal.status, fields)
        return rendered if head is not None and head.method == "HEAD" else rendered + body


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
        await self._write_event(sse.encode(sse.single_line(jsonrpc.notification(method, params))))

    async def keep_alive(self) -> None:
        """Send a comment, so that no proxy closes the stream as idle."""
        await self._write_event(sse.KEEP_ALIVE)

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

    async def _write_event(self, data: bytes) -> None:
        if self._is_finished:
            return
        if not self._http_request.is_begun:
            self._http_request.start(200, EVENT_FIELDS, EVENTS)
        await self._http_request.write(data)
