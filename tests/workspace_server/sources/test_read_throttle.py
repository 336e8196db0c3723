"""How much of the event loop's time a connection may use for unsolicited messages."""

from __future__ import annotations

import asyncio

import pytest

from workspace_server.sources.read_throttle import BURST_S, BYTE_S, MESSAGE_S, REST, ReadThrottle


@pytest.mark.parametrize("size", [0, 100, 100_000, 32 * 2**20])
async def test_a_flood_is_paused_for_nine_tenths_of_the_time(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """The size of the messages does not matter, and a short burst causes no long pause."""
    rests: list[float] = []

    async def sleep(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    pace, each = ReadThrottle(), MESSAGE_S + size * BYTE_S
    for _ in range(1_000):
        await pace.unsolicited(size)
    assert 1_000 * each - BURST_S <= sum(rests) / REST <= 1_000 * each + 1e-9
    assert max(rests) / REST < BURST_S + each


async def test_few_messages_are_read_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A banner of some lines causes no delay."""
    monkeypatch.setattr(asyncio, "sleep", None)  # not called
    pace = ReadThrottle()
    for _ in range(100):
        await pace.unsolicited(80)
