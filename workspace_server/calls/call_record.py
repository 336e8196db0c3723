"""Remembers the calls that run and those that ended last, and stops running ones for the user.

It has tools, clients, times and outcomes, never arguments or results. Calls that are answered without a task
are over before anybody could look, and are not recorded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.errors import Reason, Refusal
from workspace_server.tool import CallOutcome, RpcError, ToolResult

LAST: Final = 32
_SMALL_BYTES: Final = 4096
"""Results of other servers up to this size are read for `isError`; errors are rarely larger."""


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


def outcome_word(outcome: CallOutcome) -> str:
    """`ok`, `error`, or the reason of a refusal."""
    match outcome:
        case Refusal():
            return outcome.reason.word
        case RpcError():
            return "error"
        case ToolResult():
            return "error" if outcome.is_error else "ok"
        case msgspec.Raw():
            small = len(memoryview(outcome)) <= _SMALL_BYTES
            flag = jsonrpc.members_of(outcome).get("isError") if small else None
            return "error" if flag is not None and jsonrpc.bytes_of(flag) == b"true" else "ok"


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)
