"""An event stream as an HTTP answer: never silent for long, ended once, cut off where it has to be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientError, ClientResponse, ClientSession

from lm_tools_bridge.protocol import sse
from manager.http.event_response import EventResponse
from manager.http.request import HttpRequest
from support.http.served_connection import served_by
from support.processes.timeouts import within

EVENT = b"data: 1\n\n"


@asynccontextmanager
async def serving(work: Callable[[EventResponse], Awaitable[None]]) -> AsyncIterator[ClientResponse]:
    """The client's side of a stream that was opened, and on which `work` is done."""

    async def answer(http_request: HttpRequest) -> None:
        out = EventResponse(http_request)
        out.open({"X-Own": "1"})
        await work(out)

    async with (
        served_by(answer) as url,
        ClientSession() as http,
        asyncio.timeout(within(5)),
        http.get(url) as response,
    ):
        yield response


async def test_proxies_are_told_not_to_buffer() -> None:
    async def work(out: EventResponse) -> None:
        await out.write(EVENT)
        out.close()

    async with serving(work) as response:
        assert await response.read() == EVENT
    assert response.headers["Content-Type"] == "text/event-stream"
    assert (response.headers["X-Own"], response.headers["X-Accel-Buffering"]) == ("1", "no")


async def test_each_silence_is_filled_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before an event and after it; nothing is left behind that could speak later."""
    monkeypatch.setattr("manager.http.open_streams.SILENCE_S", 0.02)
    gates, ended = [asyncio.Event(), asyncio.Event()], asyncio.Event()

    async def work(out: EventResponse) -> None:
        keep_alives = out.keep_alives
        await gates[0].wait()
        await out.write(EVENT)
        await gates[1].wait()
        out.close()
        assert len(keep_alives) == 0
        ended.set()

    async with serving(work) as response:
        for gate in gates:
            for _ in range(2):
                while await response.content.readuntil(b"\n\n") != sse.KEEP_ALIVE:
                    pass
            gate.set()
        rest = await response.read()
    assert rest.replace(sse.KEEP_ALIVE, b"") in (b"", EVENT)
    assert ended.is_set()


async def test_who_is_cut_off_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proper end that could be taken for the end of the stream; a late comment harms nobody."""
    monkeypatch.setattr("manager.http.open_streams.SILENCE_S", 0.01)
    gate = asyncio.Event()
    was_refused = False

    async def work(out: EventResponse) -> None:
        nonlocal was_refused
        keep_alives = out.keep_alives
        await gate.wait()
        out.abort()
        assert len(keep_alives) == 0
        with pytest.raises(ConnectionError):
            await out.write(EVENT)
        was_refused = True

    async with serving(work) as response:
        gate.set()
        with pytest.raises(ClientError):
            await response.read()
    assert was_refused
