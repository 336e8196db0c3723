"""The session of a client of the legacy era: opened by the client, and anew by us when the manager lost it.

It remembers what the client set up in it, so that the next session is like the one before: the parameters of
`initialize`, the log level, the subscribed resources. Its standing stream is read here, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from manager.stdio_bridge.http_requests import legacy_head
from manager.stdio_bridge.manager_connection import ManagerConnection, Message, Unreachable
from manager.stdio_bridge.responses import Lost, body_of, events_of, is_stream, own_words, response_in
from manager.upstream.response import UpstreamFailure, UpstreamResponse
from protocol import headers, jsonrpc, names, sse
from protocol.jsonrpc import Request

OWN_ID: Final = b'"lmtb-connect"'
"""The id of requests of our own; their answers are never shown to the client."""
_AGAIN_S: Final = 1.0
_END_S: Final = 1.0
_LIST_OF: Final = {
    "tools": names.TOOLS_CHANGED,
    "resources": names.RESOURCES_CHANGED,
    "prompts": names.PROMPTS_CHANGED,
}
_REMEMBERED: Final = frozenset({names.SET_LEVEL, names.SUBSCRIBE, names.UNSUBSCRIBE})
_NOTHING: Final = msgspec.Raw(b"null")
_GONE: Final = 404

Write = Callable[[bytes], Awaitable[None]]


class RefusedError(Exception):
    """The manager does not open another session; `error` is its JSON-RPC error object as JSON text."""

    def __init__(self, error: bytes) -> None:
        super().__init__(error)
        self.error = error


@dataclass(frozen=True, slots=True)
class Opened:
    """One session at the manager."""

    id: str
    revision: str | None


class Session:
    """What a legacy client takes for its one session."""

    def __init__(self, link: ManagerConnection, write: Write) -> None:
        self._link = link
        self._write = write
        self._params = b""
        self._kinds: tuple[str, ...] = ()
        self._level = b""
        self._subscribed: dict[str, bytes] = {}
        self._renewing = asyncio.Lock()
        self._stream: asyncio.Task[None] | None = None
        self._last_event: str | None = None
        self._is_behind = False
        self.opened: Opened | None = None

    def message(self, body: bytes, opened: Opened | None) -> Message:
        """The HTTP request for a message in a session, or before there is one."""
        return Message(
            b"POST", legacy_head(*((opened.id, opened.revision) if opened else (None, None))), body
        )

    # -- what the client sets up -----------------------------------------------------------------------

    def initialized(self, request: Request, response: UpstreamResponse, answer: bytes) -> None:
        """Take note that the client's own `initialize` was answered."""
        opened = _opened(response, answer)
        if opened is None:
            return
        self.opened, self._params = opened, request.params
        self._level, self._subscribed = b"", {}
        self._kinds = _announced(jsonrpc.members_of(answer)["result"])

    def answered(self, request: Request, answer: bytes) -> None:
        """Take note of what another request changed in the session."""
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

    def listen(self) -> None:
        """Read the standing stream from now on."""
        if self._stream is None or self._stream.done():
            self._stream = asyncio.create_task(self._stand(), name="standing stream")

    # -- a lost session --------------------------------------------------------------------------------

    async def renew(self, lost: Opened) -> None:
        """Open another session in place of a lost one, unless that has happened already.

        Raises:
            Unreachable, UpstreamFailure, Lost: it was not possible this time.
            RefusedError: the manager said no.
        """
        async with self._renewing:
            if self.opened is not lost:
                return
            body = _own(names.INITIALIZE, self._params)
            response = await self._link.send(self.message(body, None))
            answer = await response_in(response)
            opened = _opened(response, answer)
            if opened is None:
                raise RefusedError(_error_in(answer, response.head.status))
            await self._post(jsonrpc.notification(names.INITIALIZED), opened)
            if self._level:
                await self._post(_own(names.SET_LEVEL, self._level), opened)
            for params in self._subscribed.values():
                await self._post(_own(names.SUBSCRIBE, params), opened)
            self.opened, self._last_event, self._is_behind = opened, None, False
        await self.announce()

    async def _post(self, body: bytes, opened: Opened) -> None:
        await body_of(await self._link.send(self.message(body, opened)))

    async def announce(self) -> None:
        """Tell the client that everything may have changed: nobody knows what it was not told."""
        for method in self._kinds:
            await self._write(jsonrpc.notification(method))
        for uri in self._subscribed:
            await self._write(jsonrpc.notification(names.RESOURCE_UPDATED, {"uri": uri}))

    # -- the standing stream ---------------------------------------------------------------------------

    async def _stand(self) -> None:
        while (opened := self.opened) is not None:
            with suppress(Lost, UpstreamFailure, Unreachable, RefusedError):
                await self._hear(opened)
            await asyncio.sleep(_AGAIN_S)

    async def _hear(self, opened: Opened) -> None:
        """Open the stream once, and pass on what comes until it ends."""
        response = await self._link.send_when_there(_standing(opened, self._last_event))
        if response.head.status == _GONE:
            await response.aclose()
            await self.renew(opened)
        if not is_stream(response):
            await response.aclose()
            return
        if self._is_behind:
            await self.announce()
        self._is_behind = True  # from now on, until the next one is open
        async with aclosing(events_of(response)) as events:
            async for event in events:
                self._last_event = event.id or self._last_event
                if event.data:
                    await self._write(sse.single_line(event.data))

    async def end(self) -> None:
        """Stop listening, and end the session at the manager if that can be done at once."""
        if self._stream is not None:
            self._stream.cancel()
            await asyncio.gather(self._stream, return_exceptions=True)
        opened, self.opened = self.opened, None
        if opened is None:
            return
        message = Message(b"DELETE", legacy_head(opened.id, opened.revision))
        with suppress(TimeoutError, Lost, UpstreamFailure):  # it ends by itself then, later
            async with asyncio.timeout(_END_S):
                await body_of(await self._link.send_when_there(message))


def _announced(result: msgspec.Raw) -> tuple[str, ...]:
    """The notifications about changed lists that an `initialize` result promises."""
    declared = jsonrpc.members_of(jsonrpc.members_of(result).get("capabilities", _NOTHING))
    members = {kind: jsonrpc.members_of(declared.get(kind, _NOTHING)) for kind in _LIST_OF}
    return tuple(
        method
        for kind, method in _LIST_OF.items()
        if jsonrpc.bytes_of(members[kind].get("listChanged", _NOTHING)) == b"true"
    )


def _standing(opened: Opened, last: str | None) -> Message:
    head = [one for one in legacy_head(opened.id, opened.revision) if one[0] != b"Content-Type"]
    if last is not None:
        head.append((headers.LAST_EVENT_ID.encode(), headers.encode_value(last).encode()))
    return Message(b"GET", head)


def _own(method: str, params: bytes) -> bytes:
    return jsonrpc.request(OWN_ID, method, jsonrpc.members_of(params))


def _error_in(answer: bytes, status: int) -> bytes:
    """The error object of an answer; one of ours for a refusal of the door, which has none."""
    error = jsonrpc.members_of(answer).get("error", _NOTHING)
    if "code" not in jsonrpc.members_of(error):
        error = jsonrpc.members_of(own_words(OWN_ID, status, answer))["error"]
    return jsonrpc.bytes_of(error)


def _opened(response: UpstreamResponse, answer: bytes) -> Opened | None:
    """The session that an answer to `initialize` opened."""
    identity = response.head.header(headers.SESSION.encode())
    result = jsonrpc.members_of(answer).get("result")
    if identity is None or result is None:
        return None
    named = jsonrpc.members_of(result).get("protocolVersion", _NOTHING)
    return Opened(identity.decode("latin-1"), jsonrpc.text_of(named))
