"""Events are read in order, and none is lost."""

from __future__ import annotations

import asyncio

import pytest

from workspace_server.sources.mcp.rpc.connection import EventQueue


async def test_events_are_read_in_the_order_of_their_arrival() -> None:
    queue: EventQueue[int] = EventQueue()
    for event in range(3):
        queue.put(event)
    assert len(queue) == 3
    assert [await queue.get() for _ in range(3)] == [0, 1, 2]
    assert len(queue) == 0


async def test_a_reader_waits_for_an_event() -> None:
    queue: EventQueue[int] = EventQueue()
    reader = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.put(1)
    queue.put(2)
    assert await reader == 1
    assert await queue.get() == 2


async def test_an_event_that_arrives_while_its_reader_is_cancelled_is_kept() -> None:
    queue: EventQueue[int] = EventQueue()
    reader = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    reader.cancel()
    queue.put(1)
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert await queue.get() == 1
