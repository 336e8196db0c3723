"""Records the calls that run and those that ended last, stops running ones, and limits their time.

The record has tools, clients, times and outcomes, never arguments or results. Calls that are answered without
a task are over before anybody could look, and are not recorded. The clock of a limit stands still while a
person is being asked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
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


@dataclass(slots=True)
class _RecordedCall:
    """A call that runs or has ended; its times are monotonic seconds.

    Attributes:
        source: the id of the source that runs it.
        task: runs it; None when it has ended.
        is_stopped: whether the user stopped it.
        word: how it ended, as in `outcome_word`.
    """

    number: int
    tool: str
    client: str
    source: str
    began: float
    task: asyncio.Task[Any] | None
    is_stopped: bool = False
    ended: float = 0.0
    word: str = "cancelled"

    def as_json(self, seconds: float) -> dict[str, Any]:
        """The members that running and ended calls have; `seconds` is how long it has run."""
        return {
            "number": self.number,
            "tool": self.tool,
            "client": self.client or None,
            "source": self.source or None,
            "ms": round(seconds * 1000, 1),
        }


class CallRecord:
    """The calls of one workspace. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._numbers = count(1)
        self._running: dict[int, _RecordedCall] = {}
        self._ended: deque[_RecordedCall] = deque(maxlen=LAST)

    async def recorded(
        self, tool: str, client: str, work: Callable[[], Awaitable[CallOutcome]], *, source: str = ""
    ) -> CallOutcome:
        """Run a call in this task and record it. If it is stopped, the outcome is a refusal that says so.

        Args:
            source: the id of the source that runs it.
        """
        task = running_task()
        call = _RecordedCall(next(self._numbers), tool, client, source, self._clock(), task)
        self._running[call.number] = call
        try:
            outcome = await work()
            if call.is_stopped:
                task.uncancel()  # it finished all the same
            call.word = outcome_word(outcome)
            return outcome
        except asyncio.CancelledError:
            if not call.is_stopped or task.uncancel() > 0:
                raise  # its client cancelled it, too
            call.word = Reason.CALL_STOPPED.word
            return Refusal(Reason.CALL_STOPPED, f"the user stopped {tool}", delivered="unknown")
        finally:
            del self._running[call.number]
            call.task, call.ended = None, self._clock()
            self._ended.append(call)

    def stop(self, number: int) -> bool:
        """Cancel a running call for the user. False if it does not run, or is stopped already."""
        call = self._running.get(number)
        if call is None or call.task is None or call.is_stopped:
            return False
        call.is_stopped = True
        return call.task.cancel()

    def as_json(self) -> dict[str, Any]:
        """`{ok, running, ended}`: the longest first, the last one first."""
        now = self._clock()
        ended = [
            {
                **call.as_json(call.ended - call.began),
                "outcome": call.word,
                "ageSec": round(now - call.ended, 1),
            }
            for call in reversed(self._ended)
        ]
        running = [call.as_json(now - call.began) for call in self._running.values()]
        return {"ok": True, "running": running, "ended": ended}


def running_task() -> asyncio.Task[Any]:
    """The task that runs this code."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  narrows the type: coroutines run in tasks here
    return task
