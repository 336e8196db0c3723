"""Limits the time of a call. The clock stands still while a person is being asked."""

from __future__ import annotations

import asyncio
from types import TracebackType

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol.errors import Reason, Refusal
from workspace_server.call_context import CallContext
from workspace_server.calls.suspended_calls import Work
from workspace_server.tool import CallOutcome, RpcError


async def run_limited(
    seconds: float, context: CallContext, work: Work, text: str, next_step: str | None = None
) -> CallOutcome:
    """The outcome of `work`, or a refusal (`call_timed_out`) with this text if the time runs out first.

    Args:
        seconds: the limit; time in which the caller is being asked something does not count.
        context: what `work` is called with, except that the clock knows when it asks.
        work: makes the call. What it raises is raised here.
        text: says which call was stopped and when.
        next_step: what the caller can do; None for the usual advice.
    """
    try:
        async with Deadline(seconds, context) as (timed, limit):
            return await work(timed)
    except TimeoutError:
        if not limit.expired():
            raise
        return Refusal(Reason.CALL_TIMED_OUT, text, next_step, delivered="unknown")


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
