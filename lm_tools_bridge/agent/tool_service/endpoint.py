"""Serves a tool service over WebSockets on a loopback port: who may connect, and the calls of each."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec
from aiohttp import WSCloseCode, WSMessage, WSMsgType, web

from lm_tools_bridge.agent.tool_service.keep_alive import PING_S, PONG_S, KeepAlive
from lm_tools_bridge.agent.tool_service.service import ToolServiceError
from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.jsonrpc import Malformed, Notification, Request
from lm_tools_bridge.protocol.names import negotiate

MAX_CALLS: Final = 32
"""Requests of one connection that may run at once."""
SEND_S: Final = 30.0
"""Seconds in which a client has to take a message."""


class Service(Protocol):
    """What is served; `ToolService` is one."""

    async def handle_tools_list_request(self, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The result of `tools/list`, by the request or its parameters."""
        ...

    async def handle_tool_call_request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The result of `tools/call`."""
        ...

    def on_tool_list_changed(self, handler: Callable[[], None]) -> Callable[[], None]:
        """Call `handler` after each change; returns a function that ends this."""
        ...


class Connection:
    """One client.

    Attributes:
        dropped: frames that were not text.
    """

    def __init__(self, service: Service, socket: web.WebSocketResponse, keep_alive: KeepAlive) -> None:
        self.dropped = 0
        self._service = service
        self._socket = socket
        self._keep_alive = keep_alive
        self._running: dict[bytes, asyncio.Task[None]] = {}
        self._notices: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Read frames until the connection ends; then nothing of it runs on."""
        unsubscribe = self._service.on_tool_list_changed(self._tell_change)
        pinging = asyncio.create_task(self._keep_alive.run(), name="pings")
        try:
            async for message in self._socket:
                await self._take(message)
        finally:
            unsubscribe()
            tasks = [pinging, *self._running.values(), *self._notices]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, message: WSMessage) -> None:
        if message.type is WSMsgType.PONG:
            self._keep_alive.pong()
        elif message.type is WSMsgType.PING:
            await self._socket.pong(message.data)
        elif message.type is WSMsgType.TEXT:
            await self._take_text(message.data.encode("utf-8", "replace"))
        else:
            self.dropped += 1

    async def _take_text(self, text: bytes) -> None:
        message = jsonrpc.parse(text)
        if isinstance(message, Malformed):
            await self._send(jsonrpc.error(message.id, message.code, message.message))
        elif isinstance(message, Notification):
            if message.method == names.CANCELLED:
                self._cancel(message)
        elif isinstance(message, Request):
            await self._begin(message)

    async def _begin(self, request: Request) -> None:
        if request.id in self._running or len(self._running) >= MAX_CALLS:
            text = "the id is in use" if request.id in self._running else f"{MAX_CALLS} requests are running"
            await self._send(jsonrpc.error(request.id, jsonrpc.INVALID_REQUEST, text))
            return
        task = asyncio.create_task(self._answer(request), name=f"tool service {request.method}")
        self._running[request.id] = task
        task.add_done_callback(lambda _: self._running.pop(request.id, None))

    async def _answer(self, request: Request) -> None:
        try:
            answer = jsonrpc.result(request.id, await self._result(request))
        except ToolServiceError as error:
            answer = jsonrpc.error(request.id, error.code, str(error), error.data or None)
        except Exception:  # noqa: BLE001  a fault of the service ends one request, not the connection
            answer = jsonrpc.error(request.id, jsonrpc.INTERNAL_ERROR, "the request failed")
        await self._send(answer)

    async def _result(self, request: Request) -> Mapping[str, Any]:
        params = msgspec.json.decode(request.params) if request.params else {}
        match request.method:
            case names.INITIALIZE:
                return {
                    "protocolVersion": negotiate(params.get("protocolVersion")),
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "lmtb-tool-service", "version": "1"},
                }
            case names.PING:
                return {}
            case names.TOOLS_LIST:
                return await self._service.handle_tools_list_request(params)
            case names.TOOLS_CALL:
                return await self._service.handle_tool_call_request({"params": params})
        raise ToolServiceError(f"there is no method {request.method[:100]}", jsonrpc.METHOD_NOT_FOUND)

    def _cancel(self, notification: Notification) -> None:
        request_id = jsonrpc.members_of(notification.params).get("requestId")
        task = None if request_id is None else self._running.get(jsonrpc.bytes_of(request_id))
        if task is not None:
            task.cancel()

    def _tell_change(self) -> None:
        notice = asyncio.ensure_future(self._send(jsonrpc.notification(names.TOOLS_CHANGED)))
        self._notices.add(notice)
        notice.add_done_callback(self._notices.discard)

    async def _send(self, message: bytes) -> None:
        with suppress(ConnectionError):
            try:
                async with asyncio.timeout(SEND_S):
                    await self._socket.send_str(message.decode())
            except TimeoutError:
                await self._socket.close(code=1008, message=b"the client does not read")


PROTOCOL: Final = "mcp"
"""The WebSocket subprotocol; browsers name it beside the token."""
TOKEN_PREFIX: Final = "lmtb.token."  # noqa: S105  the beginning of a subprotocol's name
_BEARER: Final = "bearer "


@dataclass(frozen=True, slots=True)
class Denied:
    """Why a connection is refused, with the HTTP status."""

    status: int
    reason: str


def admitted(
    headers: Mapping[str, str], hosts: Collection[str], origins: Collection[str], token: str
) -> Denied | None:
    """None if the connection may be opened.

    Args:
        headers: of the request; names compare in any case.
        hosts: the exact values of Host that are ours.
        origins: pages that may connect, such as `https://example.org`. Programs send no Origin.
        token: what the client has to know.
    """
    if headers.get("Host", "").lower() not in hosts:
        return Denied(403, "foreign host")
    origin = headers.get("Origin")
    if origin is not None and origin.lower() not in {allowed.lower().rstrip("/") for allowed in origins}:
        return Denied(403, "this page may not use tools; allow it with --origin")
    if origin is None and headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}:
        return Denied(403, "cross-site request")
    token_text = token_in(headers)
    if token_text is None or not hmac.compare_digest(
        token_text.encode("utf-8", "surrogateescape"), token.encode()
    ):
        return Denied(401, "the token is missing or wrong")
    return None


def token_in(headers: Mapping[str, str]) -> str | None:
    """The token of a client: a bearer token, or for browsers, which cannot set headers, a subprotocol."""
    authorization = headers.get("Authorization", "")
    if authorization.lower().startswith(_BEARER):
        return authorization[len(_BEARER) :].strip()
    for offered in offered_protocols(headers):
        if offered.startswith(TOKEN_PREFIX):
            return offered.removeprefix(TOKEN_PREFIX)
    return None


def offered_protocols(headers: Mapping[str, str]) -> Iterable[str]:
    """The subprotocols that a client offers."""
    return [protocol.strip() for protocol in headers.get("Sec-WebSocket-Protocol", "").split(",")]


PATH: Final = "/tools"
MAX_FRAME: Final = 4 * 1024 * 1024
"""Requests carry arguments, which are smaller than results; a client could fill memory with larger ones."""
MAX_CONNECTIONS: Final = 32
"""A program offers its tools to a few agents; each connection keeps a task and buffers of `MAX_FRAME`."""
_LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Serving:
    """Where a service is reached: its `ws://` address, and the token that clients have to know."""

    address: str
    token: str


@asynccontextmanager
async def serving(
    service: Service,
    *,
    port: int = 0,
    origins: Collection[str] = (),
    token: str | None = None,
    ping_s: float = PING_S,
    pong_s: float = PONG_S,
) -> AsyncIterator[Serving]:
    """Serve for as long as the block lasts; at its end all connections are closed (1001).

    Args:
        service: answers lists and calls.
        port: 0 for a free one.
        origins: web pages that may connect; programs, which send no Origin, always may.
        token: what clients have to know; by default a new random one.

    Raises:
        OSError: the port is taken.
    """
    endpoint = _Endpoint(service, frozenset(origins), token or secrets.token_urlsafe(32), ping_s, pong_s)
    app = web.Application()
    app.router.add_get(PATH, endpoint.connect)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=5.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, _LOOPBACK, port)
        await site.start()
        bound = int(runner.addresses[0][1])
        endpoint.hosts = frozenset({f"{_LOOPBACK}:{bound}", f"localhost:{bound}"})
        yield Serving(f"ws://{_LOOPBACK}:{bound}{PATH}", endpoint.token)
    finally:
        await endpoint.close()
        await runner.cleanup()


class _Endpoint:
    def __init__(
        self, service: Service, origins: frozenset[str], token: str, ping_s: float, pong_s: float
    ) -> None:
        self.hosts: frozenset[str] = frozenset()
        self.token = token
        self._service = service
        self._origins = origins
        self._times = (ping_s, pong_s)
        self._open: set[web.WebSocketResponse] = set()

    async def connect(self, request: web.Request) -> web.StreamResponse:
        """Serve one connection, if it is admitted."""
        denied = admitted(request.headers, self.hosts, self._origins, self.token)
        if denied is not None:
            return web.json_response({"error": denied.reason}, status=denied.status)
        if len(self._open) >= MAX_CONNECTIONS:
            return web.json_response({"error": "too many connections"}, status=503)
        socket = web.WebSocketResponse(protocols=(PROTOCOL,), autoping=False, max_msg_size=MAX_FRAME)
        if not socket.can_prepare(request):
            return web.json_response({"error": "connect with a WebSocket"}, status=426)
        self._open.add(socket)
        try:
            await socket.prepare(request)
            await Connection(self._service, socket, KeepAlive(socket, *self._times)).serve()
        finally:
            self._open.discard(socket)
        return socket

    async def close(self) -> None:
        """Tell all clients that the server is going away."""
        for socket in list(self._open):
            await socket.close(code=WSCloseCode.GOING_AWAY, message=b"the server ends")
