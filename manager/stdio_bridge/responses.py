"""Reads the messages of the manager's HTTP responses, from JSON bodies and event streams alike."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, sse
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.jsonrpc import Response
from manager.upstream.failures import ResponseTooLarge, UpstreamFailure
from manager.upstream.response import UpstreamResponse

MAX_MESSAGE: Final = 128 * 1024 * 1024
"""Bytes of the largest message that is forwarded; the manager's own limit is smaller by default."""
_MAX_RETRY_AFTER_S: Final = 5


class ResponseLost(Exception):
    """The HTTP response broke off or held no JSON-RPC response. The request may have been executed."""


def is_stream(response: UpstreamResponse) -> bool:
    """Whether the HTTP response is an event stream."""
    kind = response.head.content_type
    return response.head.status == 200 and kind == b"text/event-stream"


async def events_of(response: UpstreamResponse) -> AsyncGenerator[sse.Event]:
    """Yield the events of a stream as they come, until it ends.

    Raises:
        ResponseLost: it broke off.
    """
    decoder = sse.Decoder(MAX_MESSAGE)
    try:
        async for chunk in response.chunks():
            for event in decoder.feed(chunk):
                yield event
    except (UpstreamFailure, sse.EventTooLarge) as failure:
        raise ResponseLost(str(failure)) from failure
    finally:
        response.abandon()


async def body_of(response: UpstreamResponse) -> bytes:
    """Read the whole body, on one line.

    Raises:
        ResponseLost: it broke off.
    """
    try:
        return sse.single_line(await response.read(MAX_MESSAGE))
    except (UpstreamFailure, ResponseTooLarge) as failure:
        raise ResponseLost(str(failure)) from failure


async def messages_of(response: UpstreamResponse) -> AsyncGenerator[bytes]:
    """Yield the messages of an HTTP response, each on one line.

    Raises:
        ResponseLost: it broke off.
    """
    if not is_stream(response):
        yield await body_of(response)
        return
    async with aclosing(events_of(response)) as events:
        async for event in events:
            if event.data:
                yield sse.single_line(event.data)


async def response_in(response: UpstreamResponse) -> bytes:
    """Read the JSON-RPC response among the messages; the whole body if there is none.

    Raises:
        ResponseLost: it broke off.
    """
    found = b""
    async for message in messages_of(response):
        if not isinstance(jsonrpc.parse(found), Response):
            found = message
    return found


def retry_after(response: UpstreamResponse) -> int | None:
    """Seconds after which to repeat a request that a stopping manager refused; None for other responses."""
    after = response.head.header(b"retry-after") or b""
    if response.head.status == 503 and after.isdigit() and int(after) <= _MAX_RETRY_AFTER_S:
        return int(after)
    return None


def error_for(identity: bytes, status: int, body: bytes) -> bytes:
    """A JSON-RPC error for an HTTP response without one; admission refusals are plain JSON objects."""
    members = jsonrpc.members_of(body)
    nested = jsonrpc.members_of(members.get("error", b"{}"))
    message = jsonrpc.text_of(nested.get("message", members.get("error", msgspec.Raw(b"null"))))
    text = message or f"the manager answered with HTTP status {status}"
    if status in {403, 413, 431}:
        return jsonrpc.error(identity, jsonrpc.INVALID_REQUEST, text)
    return Refusal(Reason.INVALID_UPSTREAM_ANSWER, text, delivered="unknown").as_error(identity)
