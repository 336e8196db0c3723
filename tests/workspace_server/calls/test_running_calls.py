"""What a workspace server remembers of its calls: which run, how the last ones ended, and nothing they said."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from lm_tools_bridge.protocol.errors import Reason, Refusal
from workspace_server.call_context import CallContext
from workspace_server.calls.outcomes import outcome_word
from workspace_server.calls.running_calls import LAST, CallRecord, Deadline
from workspace_server.tool import CallOutcome, RpcError, ToolResult


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (ToolResult("fine"), "ok"),
        (ToolResult("no", is_error=True), "error"),
        (RpcError(-32000, "no"), "error"),
        (Refusal(Reason.SOURCE_UNAVAILABLE, "down"), "source_unavailable"),
        (msgspec.Raw(b'{"content":[]}'), "ok"),
        (msgspec.Raw(b'{"isError":true,"content":[]}'), "error"),
        (msgspec.Raw(b'{"content":"' + b"x" * 5000 + b'","isError":true}'), "ok"),
    ],
)
def test_word_for_an_outcome(outcome: CallOutcome, word: str) -> None:
    """A large result is not read, which costs more than the word is worth."""
    assert outcome_word(outcome) == word


async def test_calls_run_then_end_also_cancelled_ones() -> None:
    now = [100.0]
    record, go = CallRecord(lambda: now[0]), asyncio.Event()

    async def work() -> CallOutcome:
        await go.wait()
        return ToolResult("secret text")

    first, second = (asyncio.create_task(record.recorded(f"t{n}", "codex", work)) for n in (1, 2))
    await asyncio.sleep(0)
    now[0] = 102.0
    running = record.as_json()["running"]
    assert [(one["tool"], one["client"], one["ms"]) for one in running] == [
        ("t1", "codex", 2000.0),
        ("t2", "codex", 2000.0),
    ]
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    go.set()
    await second
    now[0] = 105.0
    shown = record.as_json()
    assert shown["running"] == []
    assert [(one["tool"], one["outcome"], one["ms"], one["ageSec"]) for one in shown["ended"]] == [
        ("t2", "ok", 2000.0, 3.0), ("t1", "cancelled", 2000.0, 3.0),
    ]  # fmt: skip
    assert "secret" not in json.dumps(shown)


async def test_only_the_last_calls_are_kept() -> None:
    async def work() -> CallOutcome:
        return ToolResult("")

    record = CallRecord(lambda: 0.0)
    for number in range(2 * LAST):
        await record.recorded(str(number), "", work)
    ended = record.as_json()["ended"]
    assert [ended[0]["tool"], ended[-1]["tool"], len(ended)] == [str(2 * LAST - 1), str(LAST), LAST]


async def started(
    record: CallRecord, work: Callable[[], Awaitable[CallOutcome]]
) -> asyncio.Task[CallOutcome]:
    task = asyncio.create_task(record.recorded("slow", "codex", work))
    await asyncio.sleep(0)
    return task


async def endless() -> CallOutcome:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_stopped_call_is_answered_with_who_stopped_it() -> None:
    record = CallRecord(lambda: 0.0)
    task = await started(record, endless)
    assert record.stop(record.as_json()["running"][0]["number"])
    outcome = await task
    assert isinstance(outcome, Refusal)
    assert (outcome.reason, outcome.delivered) == (Reason.CALL_STOPPED, "unknown")
    assert record.as_json()["ended"][0]["outcome"] == "call_stopped"
    assert task.cancelling() == 0, "what comes after the call can be timed as usual"


async def test_a_call_that_its_client_cancels_too_stays_cancelled() -> None:
    record = CallRecord(lambda: 0.0)
    task = await started(record, endless)
    assert record.stop(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_call_that_finishes_in_spite_of_the_stop_keeps_its_result() -> None:
    async def stubborn() -> CallOutcome:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return ToolResult("done")

    record = CallRecord(lambda: 0.0)
    task = await started(record, stubborn)
    assert record.stop(1)
    assert await task == ToolResult("done")
    assert task.cancelling() == 0


async def test_only_running_calls_can_be_stopped_and_only_once() -> None:
    record = CallRecord(lambda: 0.0)
    task = await started(record, endless)
    assert not record.stop(2)
    assert record.stop(1)
    assert not record.stop(1)
    await task
    assert not record.stop(1)


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
