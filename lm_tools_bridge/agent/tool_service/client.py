"""A WebSocket client of a tool service: lists and calls tools, and connects again after a loss."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec

from lm_tools_bridge.agent.tool_service.keep_alive import (
    ATTEMPTS,
    GAVE_UP,
    NORMAL,
    PING_S,
    PONG_S,
    KeepAlive,
    close_words,
    reconnect_delay,
)
from lm_tools_bridge.agent.tool_service.service import ConnectionLost, ToolServiceError
from lm_tools_bridge.machine.proved_connector import ProvedConnector
from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.names import LATEST_LEGACY

CALL_S: Final = 120.0
"""As the deadline of calls at the manager (`call_timeout_s`)."""
CONNECT_S: Final = 10.0
"""A service elsewhere needs a lookup of its name and a handshake of TLS, which take a few seconds at most."""
MAX_FRAME: Final = 32 * 1024 * 1024  # as of all messages of MCP servers that are read
_CLOSE_S: Final = 1.0
"""A service that is ending may not answer a close; nothing is lost without its answer."""
_MAX_PAGES: Final = 1_000  # a list without an end must not keep the client for ever
_ENDED: Final = "the client is closed"


class ToolClient:
    """Uses one tool service over a WebSocket; an asynchronous context manager.

    Args:
        url: `ws://` or `wss://` address.
        token: sent as a bearer token; on this machine to a program of the same user only.
        call_s: seconds that a request may take.
        ping_s: seconds between two pings.
        pong_s: seconds in which a pong has to come.
        pause: waits before each attempt to connect again.
        on_state: told in words what happens to the connection.

    Attributes:
        dropped: frames that were no JSON-RPC messages.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        call_s: float = CALL_S,
        ping_s: float = PING_S,
        pong_s: float = PONG_S,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_state: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.dropped = 0
        self._url = url
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._call_s, self._ping_s, self._pong_s = call_s, ping_s, pong_s
        self._pause = pause
        self._on_state = on_state
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._listeners: dict[object, Callable[[], None]] = {}
        self._ready = asyncio.Event()
        self._failure: str | None = None
        self._http: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin to connect; requests wait until the connection is there."""
        self._http = aiohttp.ClientSession(connector=_connector(self._url))
        self._task = asyncio.create_task(self._run(), name="tool service connection")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection with code 1000; waiting requests fail."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._give_up(_ENDED)
        if self._http is not None:
            await self._http.close()

    async def list_tools(self) -> list[dict[str, Any]]:
        """All tools, from all pages.

        Raises:
            ToolServiceError, ConnectionLost, TimeoutError: see `request`.
        """
        tools: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        for _ in range(_MAX_PAGES):
            result = await self.request(names.TOOLS_LIST, params)
            tools += [tool for tool in result.get("tools", ()) if isinstance(tool, dict)]
            if not isinstance(result.get("nextCursor"), str):
                break
            params = {"cursor": result["nextCursor"]}
        return tools

    async def call_tool(self, name: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a tool and return its result, also one with `isError`.

        Raises:
            ToolServiceError, ConnectionLost, TimeoutError: see `request`.
        """
        return await self.request(names.TOOLS_CALL, {"name": name, "arguments": params or {}})

    def on_tool_list_changed(self, handler: Callable[[], None]) -> Callable[[], None]:
        """Call `handler` when the server's list has changed; returns a function that ends this."""
        key = object()
        self._listeners[key] = handler

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its reply; several may wait at once.

        Raises:
            ToolServiceError: the reply is an error.
            ConnectionLost: the connection ended first.
            TimeoutError: no reply in time; the request is cancelled at the server.
        """
        async with asyncio.timeout(self._call_s):
            await self._ready.wait()
            if self._failure is not None or self._socket is None:
                raise ConnectionLost(self._failure or close_words(None), "no")
            return await self._exchange(self._socket, method, params)

    listTools = list_tools
    callTool = call_tool
    onToolListChanged = on_tool_list_changed

    async def _exchange(
        self, socket: aiohttp.ClientWebSocketResponse, method: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        identity = next(self._ids)
        waiting = self._waiting[identity] = asyncio.get_running_loop().create_future()
        try:
            await _send(socket, {"jsonrpc": "2.0", "id": identity, "method": method, "params": params})
            result = await waiting
        except (ConnectionError, aiohttp.ClientError) as error:
            raise ConnectionLost(str(error) or close_words(None), "unknown") from None
        except asyncio.CancelledError:
            with suppress(ConnectionError, aiohttp.ClientError):
                cancelled = {"requestId": identity}
                await _send(socket, {"jsonrpc": "2.0", "method": names.CANCELLED, "params": cancelled})
            raise
        finally:
            self._waiting.pop(identity, None)
        return result if isinstance(result, dict) else {}

    # -- connection ------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Connect, read until the connection ends, and connect again as long as that is allowed."""
        attempt = 0
        while True:
            code: int | None = None
            try:
                async with asyncio.timeout(CONNECT_S):
                    socket = await self._open()
                attempt = 0
                code = await self._serve(socket)
            except (aiohttp.ClientError, TimeoutError, OSError, ToolServiceError) as error:
                self._on_state(f"not connected: {error or type(error).__name__}")
            self._lose(code)
            attempt += 1
            delay = None if code == NORMAL else reconnect_delay(attempt)
            if delay is None:
                self._give_up(close_words(code) if code == NORMAL else GAVE_UP)
                return
            self._on_state(f"{close_words(code)}; attempt {attempt} of {ATTEMPTS} in {delay:g} s")
            await self._pause(delay)

    async def _open(self) -> aiohttp.ClientWebSocketResponse:
        """Connect and introduce ourselves."""
        assert self._http is not None  # noqa: S101  narrows the type
        socket = await self._http.ws_connect(
            self._url,
            headers=self._headers,
            autoping=False,
            max_msg_size=MAX_FRAME,
            timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_S),
        )
        params = {
            "protocolVersion": LATEST_LEGACY,
            "capabilities": {},
            "clientInfo": {"name": "lmtb-tool-client", "version": "1"},
        }
        await _send(socket, {"jsonrpc": "2.0", "id": 0, "method": names.INITIALIZE, "params": params})
        while (message := await socket.receive()).type is not aiohttp.WSMsgType.TEXT:
            if message.type in _CLOSED:
                raise aiohttp.ClientConnectionError(close_words(socket.close_code))
        reply = _decoded(message.data)
        if "error" in reply:
            await socket.close()
            raise _error(reply["error"])
        await _send(socket, {"jsonrpc": "2.0", "method": names.INITIALIZED})
        return socket

    async def _serve(self, socket: aiohttp.ClientWebSocketResponse) -> int | None:
        """Read one connection to its end; its close code, None if it was lost."""
        keep_alive = KeepAlive(socket, self._ping_s, self._pong_s)
        pinging = asyncio.create_task(keep_alive.run(), name="pings")
        self._socket = socket
        self._ready.set()
        self._on_state("connected")
        try:
            while (message := await socket.receive()).type not in _CLOSED:
                if message.type is aiohttp.WSMsgType.PONG:
                    keep_alive.pong()
                elif message.type is aiohttp.WSMsgType.PING:
                    await socket.pong(message.data)
                else:
                    self._take(message)
            return None if keep_alive.is_lost else socket.close_code
        finally:
            pinging.cancel()
            await asyncio.gather(pinging, return_exceptions=True)
            await socket.close()

    def _take(self, message: aiohttp.WSMessage) -> None:
        reply = _decoded(message.data) if message.type is aiohttp.WSMsgType.TEXT else {}
        waiting = self._waiting.get(reply["id"]) if isinstance(reply.get("id"), int) else None
        if waiting is not None and not waiting.done():
            if "error" in reply:
                waiting.set_exception(_error(reply["error"]))
            else:
                waiting.set_result(reply.get("result"))
        elif reply.get("method") == names.TOOLS_CHANGED:
            self._tell_change()
        elif "method" not in reply:
            self.dropped += 1

    def _tell_change(self) -> None:
        for handler in list(self._listeners.values()):
            try:
                handler()
            except Exception as error:  # noqa: BLE001  a program's handler must not end the connection
                self._on_state(f"a handler of list changes failed: {error or type(error).__name__}")

    def _lose(self, code: int | None) -> None:
        """All waiting requests fail at once; new ones wait for the next connection."""
        self._ready.clear()
        self._socket = None
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionLost(close_words(code), "unknown"))

    def _give_up(self, reason: str) -> None:
        """No further connection: requests fail at once."""
        self._failure = self._failure or reason
        self._lose(None)
        self._ready.set()
        self._on_state(reason)


def _connector(url: str) -> aiohttp.TCPConnector | None:
    """On this machine, only a program of this user gets the token; elsewhere, TLS proves who serves."""
    is_here = urlsplit(url).hostname in {"127.0.0.1", "localhost", "::1"}
    return ProvedConnector(always=False) if is_here else None


_CLOSED: Final = frozenset(
    {
        aiohttp.WSMsgType.CLOSE,
        aiohttp.WSMsgType.CLOSING,
        aiohttp.WSMsgType.CLOSED,
        aiohttp.WSMsgType.ERROR,
    }
)


async def _send(socket: aiohttp.ClientWebSocketResponse, message: Mapping[str, Any]) -> None:
    await socket.send_str(msgspec.json.encode(message).decode())


def _decoded(text: str | bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _error(error: Any) -> ToolServiceError:
    members = error if isinstance(error, dict) else {}
    code, data = members.get("code"), members.get("data")
    return ToolServiceError(
        str(members.get("message") or "the server sent an error"),
        code if isinstance(code, int) else 0,
        data if isinstance(data, dict) else None,
    )
