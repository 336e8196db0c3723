"""Sends a request of the client to the manager and returns its response, over restarts of the manager.

A request that was not delivered is sent again. If it may have been delivered, the client gets an error,
unless the request can be repeated without side effects.

A stateless client's listen stream that ends is opened again with the same request. The client is told that
everything may have changed; it does not see the second acknowledgement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol import skills_extension as skills
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.inbound import HEADER_MISMATCH
from lm_tools_bridge.protocol.jsonrpc import Notification, Request, Response
from manager.stdio_bridge.http_messages import (
    ResponseLost,
    StatelessRequests,
    error_for,
    is_stream,
    messages_of,
    response_in,
    retry_after,
)
from manager.stdio_bridge.manager_connection import TIMEOUT_S, HttpMessage, ManagerConnection, Unreachable
from manager.stdio_bridge.session import OWN_ID, Opened, RefusedError, Session
from manager.upstream.failures import UpstreamFailure
from manager.upstream.response import UpstreamResponse

REOPEN_S: Final = 0.5
"""Seconds before a stream that ended is opened again."""
_CHANGED: Final = {
    "toolsListChanged": names.TOOLS_CHANGED,
    "resourcesListChanged": names.RESOURCES_CHANGED,
    "promptsListChanged": names.PROMPTS_CHANGED,
}


async def listen(
    manager: ManagerConnection,
    message: HttpMessage,
    first: UpstreamResponse,
    write: Callable[[bytes], Awaitable[None]],
) -> None:
    """Forward the messages of a listen stream without end; returns only if it was never acknowledged.

    Args:
        manager: the connection to the manager.
        message: the client's request, which is sent again when the stream ends.
        first: the HTTP response to it; an error is forwarded and ends the stream.
        write: sends a message to the client.

    Raises:
        ResponseLost: the first stream broke off before it was acknowledged.
    """
    honoured = await _forward(first, write, acknowledged=None)
    while honoured is not None:
        await asyncio.sleep(REOPEN_S)
        try:
            response = await manager.send_in_background(message)
            if is_stream(response):
                await _forward(response, write, acknowledged=honoured)
            else:
                response.abandon()
        except (ResponseLost, Unreachable, UpstreamFailure):
            continue


async def _forward(
    response: UpstreamResponse, write: Callable[[bytes], Awaitable[None]], acknowledged: bytes | None
) -> bytes | None:
    """Forward one stream to its end, without the final response if it was acknowledged.

    Returns:
        The parameters of the first acknowledgement, None if there was none.

    Raises:
        ResponseLost: the stream ended before an acknowledgement or a response.
    """
    params, answered = acknowledged, False
    try:
        async with aclosing(messages_of(response)) as messages:
            async for data in messages:
                message = jsonrpc.parse(data)
                if isinstance(message, Notification) and message.method == names.ACKNOWLEDGED:
                    if acknowledged is None:
                        params = message.params
                    for notification in (data,) if acknowledged is None else _all_changed(acknowledged):
                        await write(notification)
                elif not isinstance(message, Response) or params is None:
                    answered = isinstance(message, Response)
                    await write(data)
    except ResponseLost:
        if params is None:
            raise
    if params is None and not answered:
        raise ResponseLost("the stream ended before it was acknowledged")
    return params


def _all_changed(params: bytes) -> Iterator[bytes]:
    """The notifications that everything this stream reports on may have changed."""
    members = jsonrpc.members_of(params)
    meta = {"_meta": members["_meta"]} if "_meta" in members else {}
    honoured = jsonrpc.members_of(members.get("notifications", msgspec.Raw(b"{}")))
    for kind, method in _CHANGED.items():
        if jsonrpc.bytes_of(honoured.get(kind, msgspec.Raw(b""))) == b"true":
            yield jsonrpc.notification(method, meta)
    for uri in msgspec.json.decode(honoured.get("resourceSubscriptions", msgspec.Raw(b"[]"))):
        yield jsonrpc.notification(names.RESOURCE_UPDATED, {"uri": uri, **meta})


_REPEATABLE: Final = frozenset(
    {names.INITIALIZE, names.DISCOVER, names.PING, names.LISTEN, names.TOOLS_LIST, names.RESOURCES_LIST,
     names.TEMPLATES_LIST, names.PROMPTS_LIST, skills.LIST, skills.GET, skills.READ_DIRECTORY}
)  # fmt: skip
"""Methods without side effects, which may be sent twice."""
_MOST_PAGES: Final = 100
_RENEW_AGAIN_S: Final = 0.25
_GONE: Final = 404
_PAUSE_S: Final = 0.25
"""Seconds before a request is repeated whose response broke off."""
_LOST: Final = Refusal(
    Reason.WORKSPACE_SERVER_DIED,
    "the manager stopped while it was working on this request",
    delivered="unknown",
)


@dataclass(slots=True)
class PendingRequest:
    """A request that the client waits for; `revision` is None if it belongs to a session."""

    request: Request
    revision: str | None
    task: asyncio.Task[None] | None = None
    cancelled: bool = False


class RequestRelay:
    """Sends requests to the manager and their responses to the client."""

    def __init__(
        self, manager: ManagerConnection, session: Session, write: Callable[[bytes], Awaitable[None]]
    ) -> None:
        self._manager = manager
        self._session = session
        self._write = write
        self._stateless = StatelessRequests()

    async def answer(self, pending: PendingRequest) -> None:
        """Give the client one response, unless it has cancelled the request.

        Raises:
            ClientGone: the client has closed stdout.
        """
        identity = pending.request.id
        try:
            await self._send_until_answered(pending)
        except Unreachable as failure:
            answer = _unreachable(failure).as_error(identity)
        except (ResponseLost, UpstreamFailure):
            answer = _LOST.as_error(identity)
        except RefusedError as failure:
            error = {"jsonrpc": "2.0", "id": msgspec.Raw(identity), "error": msgspec.Raw(failure.error)}
            answer = jsonrpc.dumps(error)
        else:
            return
        if not pending.cancelled:
            await self._write(answer)

    async def _send_until_answered(self, pending: PendingRequest) -> None:
        """Send the request, and again if it had no effect the first time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + TIMEOUT_S
        relisted = False
        while True:
            late = loop.time() > deadline
            opened = self._session.opened
            try:
                response = await self._manager.send(self._message(pending, opened))
                retry_s = None if late else retry_after(response)
                if retry_s is not None:
                    response.abandon()
                    await asyncio.sleep(retry_s)
                elif response.head.status == _GONE and pending.revision is None and opened and not late:
                    response.abandon()
                    await self._renew(opened)
                elif await self._forward_response(pending, response, may_relist=not relisted):
                    return
                else:
                    relisted = True
                    await self._relist(pending)
            except (ResponseLost, UpstreamFailure):
                if late or pending.request.method not in _REPEATABLE:
                    raise
                await asyncio.sleep(_PAUSE_S)

    async def _renew(self, lost: Opened) -> None:
        """Replace a lost session; after a failure, pause before the next attempt.

        The request itself was not delivered, so a failure here does not lose its response.
        """
        try:
            await self._session.renew(lost)
        except (ResponseLost, UpstreamFailure):
            await asyncio.sleep(_RENEW_AGAIN_S)

    def _message(self, pending: PendingRequest, opened: Opened | None) -> HttpMessage:
        request = pending.request
        if pending.revision is not None:
            return self._stateless.message(request, pending.revision)
        return self._session.message(request.body, None if request.method == names.INITIALIZE else opened)

    # -- response --------------------------------------------------------------------------------------

    async def _forward_response(
        self, pending: PendingRequest, response: UpstreamResponse, *, may_relist: bool
    ) -> bool:
        """Forward the messages of a response; False if the call was refused because of its mirrored headers.

        Raises:
            ResponseLost: the stream broke off or ended before the response.
        """
        request = pending.request
        if request.method == names.LISTEN and is_stream(response):
            message = self._message(pending, None)
            await listen(self._manager, message, response, self._write)
            return True
        answered, data = False, b""
        async with aclosing(messages_of(response)) as messages:
            async for data in messages:
                message_or_not = jsonrpc.parse(data)
                if isinstance(message_or_not, Response) and not answered:
                    if may_relist and _is_mismatch(pending, data):
                        return False
                    answered = True
                    self._note(pending, response, data)
                    await self._write(data)
                elif isinstance(message_or_not, Request | Notification):
                    await self._write(data)
        if not answered and is_stream(response):
            raise ResponseLost("the stream ended without a response")
        if not answered and not pending.cancelled:
            await self._write(error_for(request.id, response.head.status, data))
        return True

    def _note(self, pending: PendingRequest, response: UpstreamResponse, answer: bytes) -> None:
        """Keep what later requests need from this response."""
        request = pending.request
        if pending.revision is not None:
            if request.method == names.TOOLS_LIST:
                self._stateless.note_tools(answer, first="cursor" not in jsonrpc.members_of(request.params))
        elif request.method == names.INITIALIZE:
            self._session.note_initialized(request, response, answer)
        else:
            self._session.note_response(request, answer)

    async def _relist(self, pending: PendingRequest) -> None:
        """List the tools again to learn which arguments they mirror in headers."""
        params: dict[str, msgspec.Raw] = {"_meta": jsonrpc.members_of(pending.request.params)["_meta"]}
        for _ in range(_MOST_PAGES):
            body = jsonrpc.request(OWN_ID, names.TOOLS_LIST, params)
            request = Request(OWN_ID, names.TOOLS_LIST, b"", body)
            response = await self._manager.send(self._stateless.message(request, pending.revision or ""))
            page = await response_in(response)
            self._stateless.note_tools(page, first="cursor" not in params)
            result = jsonrpc.members_of(jsonrpc.members_of(page).get("result", b"{}"))
            if "nextCursor" not in result:
                return
            params["cursor"] = result["nextCursor"]


def _unreachable(failure: Unreachable) -> Refusal:
    return Refusal(Reason.WORKSPACE_SERVER_OFFLINE, str(failure), "run: lmtb doctor", delivered="no")


def _is_mismatch(pending: PendingRequest, answer: bytes) -> bool:
    """Whether a call was refused because its mirrored headers do not fit its arguments."""
    if pending.revision is None or pending.request.method != names.TOOLS_CALL:
        return False
    error = jsonrpc.members_of(jsonrpc.members_of(answer).get("error", b"{}"))
    return jsonrpc.bytes_of(error.get("code", msgspec.Raw(b"0"))) == str(HEADER_MISMATCH).encode()
