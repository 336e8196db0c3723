"""How many scripts run at once."""

from __future__ import annotations

import asyncio

from lm_tools_bridge.protocol.errors import Reason
from workspace_server.sources.scripts.slots import Slots, use


async def test_calls_beyond_the_limit_run_in_order() -> None:
    slots = Slots(2, 10)
    order: list[int] = []
    most = 0

    async def work(number: int) -> None:
        nonlocal most
        async with slots.acquire() as refusal:
            assert refusal is None
            order.append(number)
            most = max(most, slots.running)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(number) for number in range(50)))
    assert order == list(range(50))
    assert most == 2
    assert (slots.running, slots.waiting) == (0, 0)


async def test_a_call_that_waits_too_long_is_refused_as_not_delivered() -> None:
    slots = Slots(1, 0.02)
    async with slots.acquire(), slots.acquire() as refusal:
        assert refusal is not None
        assert (refusal.reason, refusal.delivered) == (Reason.OVERLOADED, "no")
    async with slots.acquire() as refusal:
        assert refusal is None


async def test_a_cancelled_waiting_call_takes_no_slot() -> None:
    slots = Slots(1, 10)
    async with slots.acquire():
        waiting = asyncio.create_task(slots.acquire().__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(1), slots.acquire() as refusal:
        assert refusal is None


async def test_a_script_called_by_a_script_does_not_wait_for_its_caller() -> None:
    slots = Slots(1, 5)

    async def nested(depth: int) -> int:
        async with slots.acquire() as refusal:
            assert refusal is None
            if depth == 4:
                return depth
            use(slots.nested())
            return await asyncio.create_task(nested(depth + 1))

    async with asyncio.timeout(2):
        assert await asyncio.create_task(nested(1)) == 4
