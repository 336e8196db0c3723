"""Reads an open event stream event by event."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import ClientResponse

from lm_tools_bridge.protocol import sse
from support.processes.timeouts import within


async def next_event(response: ClientResponse) -> sse.Event:
    """The next event with data: comments, and events that only prime a client, are passed over."""
    async with asyncio.timeout(within(2.5)):
        while True:
            events = sse.Decoder().feed(await response.content.readuntil(b"\n\n"))
            if events and events[0].data:
                return events[0]


async def next_message(response: ClientResponse) -> dict[str, Any]:
    """The next message."""
    message: dict[str, Any] = json.loads((await next_event(response)).data)
    return message


async def next_methods(response: ClientResponse, count: int) -> list[str]:
    """The methods of the next messages."""
    return [(await next_message(response))["method"] for _ in range(count)]


async def priming(response: ClientResponse) -> str:
    """The id that a stream begins with."""
    async with asyncio.timeout(within(2.5)):
        (event,) = sse.Decoder().feed(await response.content.readuntil(b"\n\n"))
    assert event.data == b""
    assert event.id is not None
    return event.id


async def is_silent(response: ClientResponse, seconds: float = 0.1) -> bool:
    """Whether a stream says nothing for a moment."""
    try:
        async with asyncio.timeout(seconds):
            await next_event(response)
    except TimeoutError:
        return True
    return False
