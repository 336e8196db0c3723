"""Keeps a stateless client's listen stream open, over restarts of the manager.

When a stream ends, it is opened again with the same request. The client is told that everything may have
changed; it does not see the second acknowledgement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.jsonrpc import Notification, Response
from manager.stdio_bridge.http_messages import ResponseLost, is_stream, messages_of
from manager.stdio_bridge.manager_connection import HttpMessage, ManagerConnection, Unreachable
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
