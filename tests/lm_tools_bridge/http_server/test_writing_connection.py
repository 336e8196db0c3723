"""Tests of the watch over clients that do not read their responses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from lm_tools_bridge.http_server.byte_budget import ByteBudget
from lm_tools_bridge.http_server.deadline import Deadlines
from lm_tools_bridge.http_server.limits import Limits
from lm_tools_bridge.http_server.open_connections import Connections, ServerContext
from lm_tools_bridge.http_server.writing_connection import UnreadBytes

PATIENCE_S = 30.0


class Clock:
    """A loop whose time a test advances."""

    def __init__(self) -> None:
        self._now = 0.0
        self._timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self._now

    def call_at(self, at: float, call: Callable[[], None]) -> Any:
        timer = (at, call)
        self._timers.append(timer)
        return type(
            "Handle", (), {"cancel": lambda _: timer in self._timers and self._timers.remove(timer)}
        )()

    def advance(self, seconds: float) -> None:
        until = self._now + seconds
        while due := [one for one in self._timers if one[0] <= until]:
            self._now, call = min(due, key=lambda one: one[0])
            self._timers.remove((self._now, call))
            call()
        self._now = until


class Client:
    """A connection that writes to a client; `unread` is what the transport holds."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.unread = 1_000_000
        self.is_closed = False
        self.client = "client"
        self.transport = cast(asyncio.Transport, self)
        self.buffers = ByteBudget(10_000_000)
        deadlines = Deadlines(cast(asyncio.AbstractEventLoop, self.clock))
        limits = Limits(unread_s=PATIENCE_S)
        context = ServerContext(cast(Any, None), 0, Connections(limits), deadlines, self.buffers)
        self.watch = UnreadBytes(self, context)
        self.watch.begin(2_000_000)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def get_extra_info(self, name: str) -> Any:
        raise OSError

    def close_stopped(self) -> None:
        self.is_closed = True
        self.watch.close()


def test_a_client_that_reads_nothing_is_closed_after_its_time() -> None:
    client = Client()
    client.clock.advance(PATIENCE_S - 1)
    assert (client.is_closed, client.buffers.in_use) == (False, 2_000_000)
    client.clock.advance(2)
    assert (client.is_closed, client.buffers.in_use) == (True, 0)


def test_a_client_that_reads_slowly_is_kept() -> None:
    client = Client()
    for _ in range(20):
        client.clock.advance(PATIENCE_S - 6)
        client.unread -= 1
    assert not client.is_closed


def test_a_client_that_has_caught_up_is_not_watched() -> None:
    client = Client()
    client.watch.end()
    client.clock.advance(10 * PATIENCE_S)
    assert (client.is_closed, client.buffers.in_use) == (False, 0)


@pytest.mark.parametrize("reads", [False, True])
def test_while_others_wait_for_room_a_client_that_stops_is_closed_sooner(reads: bool) -> None:
    client = Client()
    others: list[str] = []
    client.buffers.reserve("other", 9_000_000, lambda: others.append("got room"))
    for _ in range(7):
        client.clock.advance(1)
        client.unread -= reads
    assert client.is_closed is not reads
    assert others == ([] if reads else ["got room"])
