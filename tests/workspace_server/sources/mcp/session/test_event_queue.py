"""Letters come in order, and none is lost."""

from __future__ import annotations

import asyncio

import pytest

from workspace_server.sources.mcp.session.event_queue import EventQueue


async def test_letters_are_read_in_the_order_in_which_they_came() -> None:
    box: EventQueue[int] = EventQueue()
    for letter in range(3):
        box.put(letter)
    assert len(box) == 3
    assert [await box.get() for _ in range(3)] == [0, 1, 2]
    assert len(box) == 0


async def test_a_reader_waits_for_a_letter() -> None:
    box: EventQueue[int] = EventQueue()
    reader = asyncio.create_task(box.get())
    await asyncio.sleep(0)
    box.put(1)
    box.put(2)
    assert await reader == 1
    assert await box.get() == 2


async def test_a_letter_that_comes_when_its_reader_is_cancelled_stays() -> None:
    box: EventQueue[int] = EventQueue()
    reader = asyncio.create_task(box.get())
    await asyncio.sleep(0)
    reader.cancel()
    box.put(1)
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert await box.get() == 1
