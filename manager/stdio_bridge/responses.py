"""What the manager answered, message by message, whether it came as JSON or as events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec

from manager.upstream.response import ResponseTooLarge, UpstreamFailure, UpstreamResponse
from protocol import jsonrpc, sse
from protocol.errors import Reason, Refusal
from protocol.jsonrpc import Response

MAX_MESSAGE: Final = 128 * 1024 * 1024
"""Bytes of the largest message that is passed on; the manager's own limit is smaller by default."""
_SOON_S: Final = 5


class Lost(Exception):
    """The answer broke off, or held no response: the manager may or may not have done what was asked."""


def is_stream(response: UpstreamResponse) -> bool:
    """Whether the answer is a stream of events."""
    kind = response.head.content_type
    return response.head.status == 200 and kind == b"text/event-stream"


async def events_of(response: UpstreamResponse) -> AsyncGenerator[sse.Event]:
    """The events of a stream, each as it comes, until it ends.

    Raises:
        Lost: it broke off.
    """
    decoder = sse.Decoder(MAX_MESSAGE)
    try:
        async for chunk in response.chunks():
            for event in decoder.feed(chunk):
                yield event
    except (UpstreamFailure, sse.EventTooLarge) as failure:
        raise Lost(str(failure)) from failure
    finally:
        await response.aclose()


async def body_of(response: UpstreamResponse) -> bytes:
    """The whole body on one line.

    Raises:
        Lost: it broke off.
    """
    try:
        return sse.single_line(await response.read(MAX_MESSAGE))
    except (UpstreamFailure, ResponseTooLarge) as failure:
        raise Lost(str(failure)) from failure


async def messages_of(response: UpstreamResponse) -> AsyncGenerator[bytes]:
    """All messages of an answer, each on one line.

    Raises:
        Lost: it broke off.
    """
    if not is_stream(response):
        yield await body_of(response)
        return
    async with aclosing(events_of(response)) as events:
        async for event in events:
            if event.data:
                yield sse.single_line(event.data)


async def response_in(response: UpstreamResponse) -> bytes:
    """The response among the messages of an answer; its whole body where there is none.

    Raises:
        Lost: it broke off.
    """
    found = b""
    async for message in messages_of(response):
        if not isinstance(jsonrpc.parse(found), Response):
            found = message
    return found


def wait_of(response: UpstreamResponse) -> int | None:
    """Seconds after which to send again what a stopping manager did not take; None for any other answer."""
    after = response.head.header(b"retry-after") or b""
    if response.head.status == 503 and after.isdigit() and int(after) <= _SOON_S:
        return int(after)
    return None


def own_words(identity: bytes, status: int, body: bytes) -> bytes:
    """An error for an answer that is no response to this request: the door's refusals are plain objects."""
    members = jsonrpc.members_of(body)
    nested = jsonrpc.members_of(members.get("error", b"{}"))
    said = jsonrpc.text_of(nested.get("message", members.get("error", msgspec.Raw(b"null"))))
    text = said or f"the manager answered with HTTP status {status}"
    if status in {403, 413, 431}:
        return jsonrpc.error(identity, jsonrpc.INVALID_REQUEST, text)
    return Refusal(Reason.INVALID_UPSTREAM_ANSWER, text, delivered="unknown").as_error(identity)
