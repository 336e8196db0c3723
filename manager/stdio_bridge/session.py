"""Keeps the client's session at the manager, and opens a new one if the manager has lost it.

A new session gets what the client set up in the former one: the parameters of `initialize`, the log level and
the subscriptions. The session's server stream is read here, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from lm_tools_bridge.protocol import headers, jsonrpc, names, sse
from lm_tools_bridge.protocol.jsonrpc import Request
from manager.stdio_bridge.http_messages import (
    ResponseLost,
    body_of,
    error_for,
    events_of,
    is_stream,
    response_in,
    session_headers,
)
from manager.stdio_bridge.manager_connection import HttpMessage, ManagerConnection, Unreachable
from manager.upstream.failures import UpstreamFailure
from manager.upstream.response import UpstreamResponse

OWN_ID: Final = b'"lmtb-connect"'
"""Id of the bridge's own requests, whose responses the client does not see."""
# A stream that the manager ends at once must not become a flood of requests.
_REOPEN_S: Final = 1.0
# The client waits for our exit and may kill us; a session that is not ended expires.
_END_S: Final = 1.0
_LIST_OF: Final = {
    "tools": names.TOOLS_CHANGED,
    "resources": names.RESOURCES_CHANGED,
    "prompts": names.PROMPTS_CHANGED,
}
_REMEMBERED: Final = frozenset({names.SET_LEVEL, names.SUBSCRIBE, names.UNSUBSCRIBE})
_NOTHING: Final = msgspec.Raw(b"null")
# Status by which a server says that it has no such session (MCP, Streamable HTTP).
_GONE: Final = 404

Write = Callable[[bytes], Awaitable[None]]


class RefusedError(Exception):
    """The manager refuses to open a session; `error` is its JSON-RPC error object as JSON text."""

    def __init__(self, error: bytes) -> None:
        super().__init__(error)
        self.error = error


@dataclass(frozen=True, slots=True)
class Opened:
    """The id and protocol revision of a session at the manager."""

    id: str
    revision: str | None


class Session:
    """The one session that the client sees, over several sessions at the manager."""

    def __init__(self, manager: ManagerConnection, write: Write) -> None:
        self._manager = manager
        self._write = write
        self._params = b""
        self._list_notifications: tuple[str, ...] = ()
        self._level = b""
        self._subscribed: dict[str, bytes] = {}
        self._renewing = asyncio.Lock()
        self._stream: asyncio.Task[None] | None = None
        self._last_event: str | None = None
        self._may_have_missed = False
        self.opened: Opened | None = None

    def message(self, body: bytes, opened: Opened | None) -> HttpMessage:
        """The HTTP request for a message in a session, or without one."""
        return HttpMessage(
            b"POST", session_headers(*((opened.id, opened.revision) if opened else (None, None))), body
        )

    # -- session state ---------------------------------------------------------------------------------

    def note_initialized(self, request: Request, response: UpstreamResponse, answer: bytes) -> None:
        """Keep the session that the response to the client's `initialize` opened."""
        opened = _opened_session(response, answer)
        if opened is None:
            return
        self.opened, self._params = opened, request.params
        self._level, self._subscribed = b"", {}
        self._list_notifications = _announced(jsonrpc.members_of(answer)["result"])

    def note_response(self, request: Request, answer: bytes) -> None:
        """Keep what a request has changed in the session: the log level or a subscription."""
        if request.method not in _REMEMBERED or "result" not in jsonrpc.members_of(answer):
            return
        if request.method == names.SET_LEVEL:
            self._level = request.params
            return
        uri = jsonrpc.text_of(jsonrpc.members_of(request.params).get("uri", _NOTHING)) or ""
        if request.method == names.SUBSCRIBE:
            self._subscribed[uri] = request.params
        else:
            self._subscribed.pop(uri, None)

    def open_server_stream(self) -> None:
        """Read the server stream from now on."""
        if self._stream is None or self._stream.done():
            self._stream = asyncio.create_task(self._read_server_stream(), name="server stream")

    # -- a lost session --------------------------------------------------------------------------------

    async def renew(self, lost: Opened) -> None:
        """Open a new session in place of a lost one, unless that has happened already.

        Raises:
            Unreachable, UpstreamFailure, ResponseLost: the attempt failed; another one may succeed.
            RefusedError: the manager refuses to open a session.
        """
        async with self._renewing:
            if self.opened is not lost:
                return
            body = _own(names.INITIALIZE, self._params)
            response = await self._manager.send(self.message(body, None))
            answer = await response_in(response)
            opened = _opened_session(response, answer)
            if opened is None:
                raise RefusedError(_error_in(answer, response.head.status))
            await self._post(jsonrpc.notification(names.INITIALIZED), opened)
            if self._level:
                await self._post(_own(names.SET_LEVEL, self._level), opened)
            for params in self._subscribed.values():
                await self._post(_own(names.SUBSCRIBE, params), opened)
            self.opened, self._last_event, self._may_have_missed = opened, None, False
        await self.notify_all_changed()

    async def _post(self, body: bytes, opened: Opened) -> None:
        await body_of(await self._manager.send(self.message(body, opened)))

    async def notify_all_changed(self) -> None:
        """Tell the client that anything may have changed, because notifications may have been missed."""
        for method in self._list_notifications:
            await self._write(jsonrpc.notification(method))
        for uri in self._subscribed:
            await self._write(jsonrpc.notification(names.RESOURCE_UPDATED, {"uri": uri}))

    # -- server stream ---------------------------------------------------------------------------------

    async def _read_server_stream(self) -> None:
        while (opened := self.opened) is not None:
            with suppress(ResponseLost, UpstreamFailure, Unreachable, RefusedError):
                await self._read_once(opened)
            await asyncio.sleep(_REOPEN_S)

    async def _read_once(self, opened: Opened) -> None:
        """Open the stream once and forward its messages until it ends."""
        response = await self._manager.send_in_background(_server_stream_request(opened, self._last_event))
        if response.head.status == _GONE:
            response.abandon()
            await self.renew(opened)
        if not is_stream(response):
            response.abandon()
            return
        if self._may_have_missed:
            await self.notify_all_changed()
        self._may_have_missed = True  # until the next stream is open
        async with aclosing(events_of(response)) as events:
            async for event in events:
                self._last_event = event.id or self._last_event
                if event.data:
                    await self._write(sse.single_line(event.data))

    async def end(self) -> None:
        """Close the server stream, and end the session at the manager if that takes at most 1 s."""
        if self._stream is not None:
            self._stream.cancel()
            await asyncio.gather(self._stream, return_exceptions=True)
        opened, self.opened = self.opened, None
        if opened is None:
            return
        message = HttpMessage(b"DELETE", session_headers(opened.id, opened.revision))
        with suppress(TimeoutError, ResponseLost, UpstreamFailure):  # the session expires later
            async with asyncio.timeout(_END_S):
                await body_of(await self._manager.send_in_background(message))


def _announced(result: msgspec.Raw) -> tuple[str, ...]:
    """The `list_changed` notifications that an `initialize` result declares."""
    declared = jsonrpc.members_of(jsonrpc.members_of(result).get("capabilities", _NOTHING))
    members = {kind: jsonrpc.members_of(declared.get(kind, _NOTHING)) for kind in _LIST_OF}
    return tuple(
        method
        for kind, method in _LIST_OF.items()
        if jsonrpc.bytes_of(members[kind].get("listChanged", _NOTHING)) == b"true"
    )


def _server_stream_request(opened: Opened, last: str | None) -> HttpMessage:
    head = [field for field in session_headers(opened.id, opened.revision) if field[0] != b"Content-Type"]
    if last is not None:
        head.append((headers.LAST_EVENT_ID.encode(), headers.encode_value(last).encode()))
    return HttpMessage(b"GET", head)


def _own(method: str, params: bytes) -> bytes:
    return jsonrpc.request(OWN_ID, method, jsonrpc.members_of(params))


def _error_in(answer: bytes, status: int) -> bytes:
    """The error object of a response; one of ours for an admission refusal, which has none."""
    error = jsonrpc.members_of(answer).get("error", _NOTHING)
    if "code" not in jsonrpc.members_of(error):
        error = jsonrpc.members_of(error_for(OWN_ID, status, answer))["error"]
    return jsonrpc.bytes_of(error)


def _opened_session(response: UpstreamResponse, answer: bytes) -> Opened | None:
    """The session that a response to `initialize` opened, None if it opened none."""
    identity = response.head.header(headers.SESSION.encode())
    result = jsonrpc.members_of(answer).get("result")
    if identity is None or result is None:
        return None
    revision = jsonrpc.members_of(result).get("protocolVersion", _NOTHING)
    return Opened(identity.decode("latin-1"), jsonrpc.text_of(revision))
