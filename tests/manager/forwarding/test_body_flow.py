"""The deadline of a body is the server's: a client that reads slowly extends it, one that stops does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from manager.call_observer import MAX_CONTENTS, CallDetails
from manager.forwarding.body_flow import Flow, keep
from support.clock import AdvancedTime
from support.http.arriving_answer import ArrivingAnswer

TIMEOUT_S = 1000.0


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
    """A body that flows to a slow client, and its end. Its time passes only where a test says so."""

    def __init__(self, clock: AdvancedTime) -> None:
        self._clock = clock
        self.arriving = ArrivingAnswer(timeout_s=TIMEOUT_S)
        self.client = SlowClient()
        self.end: list[Exception | None] = []
        self.arriving.response.receive_body(b"a")
        self.flow = Flow(self.arriving.response, self.client, self.end.append, self.arriving.call)

    async def after(self, calls: float) -> list[Exception | None]:
        """How it has ended, once so many times the time of a call has passed."""
        self._clock.advance(calls * TIMEOUT_S)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return self.end


@pytest.fixture
async def body(monkeypatch: pytest.MonkeyPatch) -> Body:
    return Body(AdvancedTime(monkeypatch))


async def test_a_server_that_is_late_times_out(body: Body) -> None:
    body.client.read()
    assert await body.after(0.9) == []
    await body.after(0.2)  # it gets the microseconds that the client took, too
    assert isinstance((await body.after(0.1))[0], TimeoutError)


async def test_the_server_is_not_late_while_the_client_does_not_read(body: Body) -> None:
    """The client's connection limits for how long."""
    for _ in range(3):
        assert await body.after(1.1) == []


async def test_a_client_that_reads_slowly_gets_the_whole_body(body: Body) -> None:
    for piece in (b"b", b"c", b"d"):
        assert await body.after(1.1) == []
        body.arriving.response.receive_body(piece)
        body.client.read()
    body.arriving.complete(b"e")
    body.client.read()
    assert (body.end, body.client.got) == ([None], b"abcde")


async def test_the_time_spent_waiting_for_the_client_is_given_to_the_server(body: Body) -> None:
    assert await body.after(0.8) == []
    body.client.read()
    assert await body.after(0.3) == []
    assert await body.after(0.7) == []
    assert isinstance((await body.after(0.2))[0], TimeoutError)


async def test_a_stopped_flow_has_no_deadline(body: Body) -> None:
    body.flow.stop()
    assert await body.after(2.2) == []
    assert await body.after(2.2) == []


def test_long_contents_are_cut_and_say_so() -> None:
    details = CallDetails(result=bytearray())
    keep(details, b"x" * MAX_CONTENTS)
    assert not details.is_cut
    keep(details, b"y")
    assert details.is_cut
    assert details.result == b"x" * MAX_CONTENTS


def test_the_beginning_of_a_piece_that_is_too_long_is_copied() -> None:
    details = CallDetails(result=bytearray())
    keep(details, memoryview(b"x" * (MAX_CONTENTS + 1)))
    assert details.is_cut
    assert details.result == b"x" * MAX_CONTENTS
