"""Streams that clients of the modern era listen on: to the client they never end by themselves.

A manager that restarts ends them, in order or not. They are opened again with the same request, and what
may have changed meanwhile is announced; the second acknowledgement is ours to keep.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Final

import msgspec

from manager.stdio_bridge.manager_connection import ManagerConnection, Message, Unreachable
from manager.stdio_bridge.responses import Lost, is_stream, messages_of
from manager.upstream.response import UpstreamFailure, UpstreamResponse
from protocol import jsonrpc, names
from protocol.jsonrpc import Notification, Response

AGAIN_S: Final = 0.5
"""How long a stream that ended is left alone."""
_CHANGED: Final = {
    "toolsListChanged": names.TOOLS_CHANGED,
    "resourcesListChanged": names.RESOURCES_CHANGED,
    "promptsListChanged": names.PROMPTS_CHANGED,
}


async def listen(
    link: ManagerConnection,
    message: Message,
    first: UpstreamResponse,
    write: Callable[[bytes], Awaitable[None]],
) -> None:
    """Pass on what comes on a listen stream, for ever; returns only if it never was acknowledged.

    Args:
        link: the way to the manager.
        message: the client's request, to be sent again when the stream ends.
        first: the answer to it; a refusal is passed on and is the end.
        write: takes messages for the client.

    Raises:
        Lost: the first stream broke off before it was acknowledged.
    """
    honoured = await _pass_on(first, write, acknowledged=None)
    while honoured is not None:
        await asyncio.sleep(AGAIN_S)
        try:
            response = await link.send_when_there(message)
            if is_stream(response):
                await _pass_on(response, write, acknowledged=honoured)
            else:
                await response.aclose()
        except (Lost, Unreachable, UpstreamFailure):
            continue


async def _pass_on(
    response: UpstreamResponse, write: Callable[[bytes], Awaitable[None]], acknowledged: bytes | None
) -> bytes | None:
    """One stream to its end; the parameters of its first acknowledgement, None if there never was one.

    Its end in order is kept back once it was acknowledged, because it is not the client's end.

    Raises:
        Lost: it ended before anything was said.
    """
    params, answered = acknowledged, False
    try:
        async with aclosing(messages_of(response)) as messages:
            async for data in messages:
                message = jsonrpc.parse(data)
                if isinstance(message, Notification) and message.method == names.ACKNOWLEDGED:
                    if acknowledged is None:
                        params = message.params
                    for news in (data,) if acknowledged is None else _missed(acknowledged):
                        await write(news)
                elif not isinstance(message, Response) or params is None:
                    answered = isinstance(message, Response)
                    await write(data)
    except Lost:
        if params is None:
            raise
    if params is None and not answered:
        raise Lost("the stream ended before it was acknowledged")
    return params


def _missed(params: bytes) -> Iterator[bytes]:
    """That everything this stream is about may have changed."""
    members = jsonrpc.members_of(params)
    meta = {"_meta": members["_meta"]} if "_meta" in members else {}
    honoured = jsonrpc.members_of(members.get("notifications", msgspec.Raw(b"{}")))
    for kind, method in _CHANGED.items():
        if jsonrpc.bytes_of(honoured.get(kind, msgspec.Raw(b""))) == b"true":
            yield jsonrpc.notification(method, meta)
    for uri in msgspec.json.decode(honoured.get("resourceSubscriptions", msgspec.Raw(b"[]"))):
        yield jsonrpc.notification(names.RESOURCE_UPDATED, {"uri": uri, **meta})
