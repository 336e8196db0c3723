"""Tests when a server counts as one that hangs."""

from __future__ import annotations

import asyncio

import pytest

from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.rpc.hang_check import SILENT_S, HangCheck


class Connection:
    """A connection whose pings are answered by `answer`, with a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pings = 0
        self.ended: list[str] = []
        self.answer = asyncio.Event()
        self.check = HangCheck(lambda: self.now, ping_s=0.01)

    async def ping(self) -> None:
        self.pings += 1
        await self.answer.wait()

    async def give_up(self, after_s: float = SILENT_S) -> None:
        """A request is sent now and given up after so many seconds; a ping gets its time."""
        sent_at = self.now
        self.now += after_s
        self.check.given_up(sent_at, self.ping, self.ended.append)
        if self.check._asking is not None:
            await asyncio.wait([self.check._asking])


@pytest.fixture
async def connection() -> Connection:
    return Connection()


async def test_a_server_that_answers_neither_two_requests_nor_a_ping_hangs(connection: Connection) -> None:
    await connection.give_up()
    assert connection.pings == 0
    await connection.give_up()
    assert connection.ended == ["it hangs: no answer to 2 requests, nor to a ping within 0.01 s"]


async def test_a_server_that_answers_the_ping_is_only_slow(connection: Connection) -> None:
    connection.answer.set()
    await connection.give_up()
    await connection.give_up()
    assert (connection.pings, connection.ended) == (1, [])


async def test_any_message_between_two_requests_shows_that_it_runs(connection: Connection) -> None:
    await connection.give_up()
    connection.check.heard()
    await connection.give_up()
    assert connection.pings == 0


async def test_a_message_since_a_request_was_sent_shows_that_it_runs(connection: Connection) -> None:
    sent_at = connection.now
    connection.now += SILENT_S
    connection.check.heard()
    for _ in range(3):
        connection.check.given_up(sent_at, connection.ping, connection.ended.append)
    assert connection.pings == 0


async def test_requests_given_up_soon_say_nothing(connection: Connection) -> None:
    for _ in range(5):
        await connection.give_up(SILENT_S - 0.1)
    assert connection.pings == 0


async def test_a_connection_that_ends_during_the_ping_is_not_ended_again(connection: Connection) -> None:
    async def ping() -> None:
        raise Unavailable("it has exited")

    connection.now = SILENT_S
    for _ in range(2):
        connection.check.given_up(0.0, ping, connection.ended.append)
    assert connection.check._asking is not None
    await connection.check._asking
    assert connection.ended == []
