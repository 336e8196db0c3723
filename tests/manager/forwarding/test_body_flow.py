"""The deadline of a body is the server's: a client that reads slowly extends it, one that stops does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from manager.forwarding.body_flow import Flow
from support.http.arriving_answer import ArrivingAnswer

BOUND_S = 10.0
TIMEOUT_S = 0.05


class SlowClient:
    """A sink that is full after each piece, until the test lets it read."""

    def __init__(self) -> None:
        self.got = b""
        self._resume: Callable[[], None] | None = None

    def put(self, data: Any) -> bool:
        self.got += data
        return False

    def when_writable(self, call: Callable[[], None]) -> None:
        self._resume = call

    def read(self) -> None:
        resume, self._resume = self._resume, None
        assert resume is not None, "the flow does not wait for the client"
        resume()


class Body:
    """A body that flows to a slow client, and its end."""

    def __init__(self) -> None:
        self.arriving = ArrivingAnswer(timeout_s=TIMEOUT_S)
        self.client = SlowClient()
        self.ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.arriving.response.receive_body(b"a")
        self.began = asyncio.get_running_loop().time()
        Flow(self.arriving.response, self.client, self.ended.set_result, self.arriving.call)

    async def end(self) -> Exception | None:
        async with asyncio.timeout(BOUND_S):
            return await self.ended

    async def pass_deadline(self, times: int = 1) -> None:
        """Wait until that many times the call's time has passed."""
        loop = asyncio.get_running_loop()
        passed = loop.create_future()
        loop.call_at(self.began + times * TIMEOUT_S * 1.2, passed.set_result, None)
        await passed


async def test_a_server_that_is_late_times_out() -> None:
    body = Body()
    body.client.read()
    assert isinstance(await body.end(), TimeoutError)


async def test_a_client_that_never_reads_ends_the_body() -> None:
    """Once it was given the call's time for what it had taken."""
    body = Body()
    fault = await body.end()
    assert isinstance(fault, ConnectionAbortedError)
    assert asyncio.get_running_loop().time() - body.began >= 2 * TIMEOUT_S * 0.9


async def test_a_client_that_reads_slowly_gets_the_whole_body() -> None:
    body = Body()
    for piece in (b"b", b"c", b"d"):
        await body.pass_deadline(len(body.client.got))
        assert not body.ended.done()
        body.arriving.response.receive_body(piece)
        body.client.read()
    body.arriving.complete(b"e")
    body.client.read()
    assert (await body.end(), body.client.got) == (None, b"abcde")


async def test_the_time_spent_waiting_for_the_client_is_given_to_the_server() -> None:
    body = Body()
    loop = asyncio.get_running_loop()
    read_at = loop.create_future()
    loop.call_at(body.began + TIMEOUT_S * 0.9, read_at.set_result, None)
    await read_at
    body.client.read()
    assert isinstance(await body.end(), TimeoutError)
    assert loop.time() - body.began >= TIMEOUT_S * 1.5


async def test_a_stopped_flow_has_no_deadline() -> None:
    body = Body()
    flow = Flow(body.arriving.response, body.client, pytest.fail, body.arriving.call)
    flow.stop()
    await body.pass_deadline(2)
