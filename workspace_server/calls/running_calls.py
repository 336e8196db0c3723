"""Records the calls that run and those that ended last, stops running ones, and limits their time.

The record has tools, clients, times and outcomes, never arguments or results. Calls that are answered without
a task are over before anybody could look, and are not recorded. The clock of a limit stands still while a
person is being asked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from types import TracebackType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol.errors import Reason, Refusal
from workspace_server.call_context import CallContext
from workspace_server.calls.outcomes import outcome_word
from workspace_server.calls.suspended_calls import Work
from workspace_server.tool import CallOutcome, RpcError


async def run_limited(
    seconds: float, context: CallContext, work: Work, explain: Callable[[], tuple[str, str]]
) -> CallOutcome:
    """The outcome of `work`, or a refusal (`call_timed_out`) if the time runs out first.

    Args:
        seconds: the limit; time in which the caller is being asked something does not count.
        context: what `work` is called with, except that the clock knows when it asks.
        work: makes the call. What it raises is raised here.
        explain: says which call was stopped and when, and what the caller can do.
    """
    try:
        async with Deadline(seconds, context) as (timed, limit):
            return await work(timed)
    except TimeoutError:
        if not limit.expired():
            raise
        return Refusal(Reason.CALL_TIMED_OUT, *explain(), delivered="unknown")


def step_for(setting: str) -> str:
    """What a caller can do about a time limit.

    Args:
        setting: what sets it, with its file; empty if nothing does.
    """
    return f"ask for less in one call{f', or raise {setting}' if setting else ''}"


class Deadline:
    """Limits a block to some seconds, without those in which its context asks the caller.

    `async with Deadline(seconds, context) as (context, limit)`: the block works with this context, and raises
    `TimeoutError` when the time is over. `limit.expired()` distinguishes that from other `TimeoutError`s.
    """

    def __init__(self, seconds: float, context: CallContext) -> None:
        self._limit = asyncio.timeout(seconds)
        self._context = context
        self._open_questions = 0
        self._left_s = 0.0
        self._is_over = False

    async def __aenter__(self) -> tuple[CallContext, asyncio.Timeout]:
        await self._limit.__aenter__()
        return replace(self._context, ask=self._ask), self._limit

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        await self._limit.__aexit__(kind, error, trace)

    async def _ask(self, method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
        self._open_questions += 1
        if self._open_questions == 1:
            self._pause()
        try:
            return await self._context.ask(method, params)
        finally:
            self._open_questions -= 1
            if not self._open_questions:
                self._resume()

    def _pause(self) -> None:
        when = self._limit.when()
        if when is not None and self._is_running():
            self._left_s = when - asyncio.get_running_loop().time()
            self._limit.reschedule(None)

    def _resume(self) -> None:
        if self._limit.when() is None and self._is_running():
            self._limit.reschedule(asyncio.get_running_loop().time() + self._left_s)

    def _is_running(self) -> bool:
        """A source may still ask something after its call has ended."""
        return not self._is_over and not self._limit.expired()


# `lmtb top` shows about a screen of ended calls; each costs some hundred bytes.
LAST: Final = 32


class CallRecord:
    """The calls of one workspace. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._numbers = count(1)
        self._running: dict[int, tuple[str, str, float]] = {}
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._stopped: set[int] = set()
        self._ended: deque[tuple[int, str, str, float, float, str]] = deque(maxlen=LAST)

    async def recorded(
        self, tool: str, client: str, work: Callable[[], Awaitable[CallOutcome]]
    ) -> CallOutcome:
        """Run a call in this task and record it. If it is stopped, the outcome is a refusal that says so."""
        number, began = next(self._numbers), self._clock()
        self._running[number] = tool, client, began
        task = self._tasks[number] = running_task()
        word = "cancelled"
        try:
            outcome = await work()
            if number in self._stopped:
                task.uncancel()  # it finished all the same
            word = outcome_word(outcome)
            return outcome
        except asyncio.CancelledError:
            if number not in self._stopped or task.uncancel() > 0:
                raise  # its client cancelled it, too
            word = Reason.CALL_STOPPED.word
            return Refusal(Reason.CALL_STOPPED, f"the user stopped {tool}", delivered="unknown")
        finally:
            del self._running[number], self._tasks[number]
            self._stopped.discard(number)
            now = self._clock()
            self._ended.append((number, tool, client, now, now - began, word))

    def stop(self, number: int) -> bool:
        """Cancel a running call for the user. False if it does not run, or is stopped already."""
        task = self._tasks.get(number)
        if task is None or number in self._stopped:
            return False
        self._stopped.add(number)
        return task.cancel()

    def as_json(self) -> dict[str, Any]:
        """`{ok, running, ended}`: the longest first, the last one first."""
        now = self._clock()
        running = [
            {"number": number, "tool": tool, "client": client or None, "ms": _milliseconds(now - began)}
            for number, (tool, client, began) in self._running.items()
        ]
        ended = [
            {
                "number": number, "tool": tool, "client": client or None, "ms": _milliseconds(took),
                "outcome": word, "ageSec": round(now - at, 1),
            }
            for number, tool, client, at, took, word in reversed(self._ended)
        ]  # fmt: skip
        return {"ok": True, "running": running, "ended": ended}


def running_task() -> asyncio.Task[Any]:
    """The task that runs this code."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  narrows the type: coroutines run in tasks here
    return task


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)
