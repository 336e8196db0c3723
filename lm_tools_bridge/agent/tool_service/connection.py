"""Serves one WebSocket: answers lists and calls, several at once, and cancels what its client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec
from aiohttp import WSMessage, WSMsgType, web

from lm_tools_bridge.agent.tool_service.errors import ToolServiceError
from lm_tools_bridge.agent.tool_service.keep_alive import KeepAlive
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
