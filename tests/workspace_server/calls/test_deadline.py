"""The time limit of a call does not count the time in which a person is asked."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from workspace_server.call_context import CallContext
from workspace_server.calls.deadline import Deadline
from workspace_server.tool import RpcError

NOTHING = msgspec.Raw(b"{}")


async def slow(method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
    await asyncio.sleep(0.2)
    return NOTHING


async def test_the_time_of_a_person_does_not_count() -> None:
    async with Deadline(0.1, CallContext(ask=slow)) as (context, limit):
        await asyncio.gather(context.ask("a", NOTHING), context.ask("b", NOTHING))
    assert not limit.expired()


async def test_the_time_before_and_after_does() -> None:
    with pytest.raises(TimeoutError):
        async with Deadline(0.1, CallContext(ask=slow)) as (context, limit):
            await context.ask("a", NOTHING)
            await asyncio.Event().wait()
    assert limit.expired()


async def test_a_question_that_outlives_its_call_changes_nothing() -> None:
    async with Deadline(5, CallContext(ask=slow)) as (context, _):
        asking = asyncio.ensure_future(context.ask("a", NOTHING))
        await asyncio.sleep(0)
    assert await asking is NOTHING
    assert await context.ask("b", NOTHING) is NOTHING
