"""Runs one call of a reply: its tool, the guard, repeats, the deadline, and its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

import msgspec

from lm_tools_bridge.agent.conversation.toolbox import Found, NotFound, Toolbox
from lm_tools_bridge.agent.interaction import DENIED, Box, Decision, Guard, Interaction, Verdict
from lm_tools_bridge.agent.messages import Call, Result
from lm_tools_bridge.agent.tool_source import (
    NO_SOURCES,
    Outcome,
    cut_text,
    limits_calls,
    refusal_of,
    result_text,
    text_outcome,
)
from lm_tools_bridge.protocol.errors import Reason

MAX_REPEATS: Final = 3
"""After so many repeats the turn ends."""
TRANSIENT: Final = frozenset(
    reason.code
    for reason in (
        Reason.WORKSPACE_SERVER_OFFLINE,
        Reason.WORKSPACE_SERVER_DIED,
        Reason.CALL_TIMED_OUT,
        Reason.OVERLOADED,
        Reason.SOURCE_UNAVAILABLE,
    )
)
"""Codes of refusals for transient reasons: such a call may be repeated."""


class RepeatedCalls:
    """The calls of one turn. Two are equal if tool and arguments are equal, whatever the order of the keys.

    Args:
        repeatable: names of tools whose calls may be repeated.
    """

    def __init__(self, repeatable: Collection[str] = ()) -> None:
        self._repeatable = frozenset(repeatable)
        self._results: dict[tuple[str, bytes], Result] = {}
        self.count = 0

    @property
    def too_many(self) -> bool:
        """Whether the turn should end."""
        return self.count >= MAX_REPEATS

    def suppressed(self, call: Call) -> Result | None:
        """The result of a call that is not to run again, None if it may run."""
        earlier = self._results.get(_signature(call))
        if earlier is None:
            return None
        self.count += 1
        text = (
            f"Redundant tool call suppressed: {call.name} was already called with these arguments in this "
            f"turn.\nIts result was:\n{earlier.text}"
        )
        return Result(call.id, call.name, text, earlier.is_error)

    def ran(self, call: Call, result: Result) -> None:
        """Remember a call with its result, unless it may be repeated."""
        if call.name not in self._repeatable and not (result.is_error and result.code in TRANSIENT):
            self._results[_signature(call)] = result


def _signature(call: Call) -> tuple[str, bytes]:
    return call.name, msgspec.json.encode(call.arguments or {}, order="sorted")


_SHOWN_LINES: Final = 20  # a person still sees the call above it; /last shows all


class Aborted(Exception):
    """The person cancelled the turn when a call was asked about."""


class CallRunner:
    """Runs calls, one at a time.

    Attributes:
        last: the newest result of a tool, whole.
        ran: how many calls were given to tools.
    """

    def __init__(
        self, toolbox: Toolbox, guard: Guard, interaction: Interaction, clock: Callable[[], float]
    ) -> None:
        self._toolbox = toolbox
        self._guard = guard
        self._interaction = interaction
        self._clock = clock
        self.last: Result | None = None
        self.ran = 0

    async def run(self, call: Call, repeats: RepeatedCalls, *, seconds: float, most: int) -> Result:
        """The result of a call, whatever happens to it.

        Args:
            call: as the model made it.
            repeats: the calls of this turn.
            seconds: how long the tool may take.
            most: bytes of text that the result may have.

        Raises:
            Aborted: the person cancelled the turn.
            asyncio.CancelledError: the same, or the task was cancelled.
        """
        self._interaction.event("call", {"id": call.id, "name": call.name, "arguments": call.arguments})
        result = self._without_running(call, repeats)
        if result is None:
            match = self._toolbox.find(call)
            if isinstance(match, NotFound):
                result = _error(call, match.text)
            else:
                result = await self._decided(call, match, seconds, most)
                repeats.ran(call, result)
        self._show(result)
        return result

    def _without_running(self, call: Call, repeats: RepeatedCalls) -> Result | None:
        if call.arguments is None:
            return _error(call, call.problem or "Error: arguments must be an object")
        if not self._toolbox.sources:
            return _error(call, NO_SOURCES)
        return repeats.suppressed(call)

    async def _decided(self, call: Call, match: Found, seconds: float, most: int) -> Result:
        arguments = match.call.arguments or {}
        if (refused := refusal_of(match.source, match.tool.name, arguments)) is not None:
            # nobody is asked about what will not run
            decision = Decision(Verdict.DENIED, arguments)
            self._guard.finished(match.call, decision, seconds=0.0, failed=None)
            return self._result(call, refused, most)
        decision = await self._guard.decide(match.call, match.tool)
        if not decision.runs:
            self._guard.finished(match.call, decision, seconds=0.0, failed=None)
        if decision.verdict is Verdict.ABORTED:
            raise Aborted
        if not decision.runs:
            return _error(call, decision.reason or DENIED)
        return await self._ran(call, match, decision, seconds, most)

    async def _ran(self, call: Call, match: Found, decision: Decision, seconds: float, most: int) -> Result:
        started, failed = self._clock(), True
        self.ran += 1
        try:
            outcome = await self._outcome(match, decision, seconds)
            failed = outcome.is_error
        except asyncio.CancelledError:
            decision = replace(decision, verdict=Verdict.ABORTED)
            raise
        finally:
            self._interaction.activity(None)
            self._guard.finished(match.call, decision, seconds=self._clock() - started, failed=failed)
        return self._result(call, outcome, most)

    async def _outcome(self, match: Found, decision: Decision, seconds: float) -> Outcome:
        name = match.tool.name
        self._interaction.activity(f"running {name}")
        try:
            async with asyncio.timeout(None if limits_calls(match.source) else seconds):
                return await self._toolbox.run(
                    match, decision.arguments, lambda text: self._interaction.activity(f"{name}: {text}")
                )
        except TimeoutError:
            text = (
                f"Error: Tool call failed: no result within {seconds:g} s. "
                "Next step: ask for less in one call, or raise tool_s in [agent]"
            )
            return text_outcome(text, is_error=True, code=Reason.CALL_TIMED_OUT.code)
        except Exception as error:  # noqa: BLE001  whatever fails in a source is the result of that call only
            return text_outcome(f"Error: Tool call failed: {error or type(error).__name__}", is_error=True)

    def _result(self, call: Call, outcome: Outcome, most: int) -> Result:
        text = result_text(outcome.content, outcome.structured)
        whole = Result(call.id, call.name, text, outcome.is_error, tuple(outcome.content), outcome.code)
        self.last = whole
        pictures = tuple(block for block in outcome.content if block.get("type") == "image")
        return Result(call.id, call.name, cut_text(text, most), outcome.is_error, pictures, outcome.code)

    def _show(self, result: Result) -> None:
        lines = result.text.splitlines() or ["(no output)"]
        if len(lines) > _SHOWN_LINES:
            lines = [*lines[:_SHOWN_LINES], f"… ({len(lines) - _SHOWN_LINES} more lines, /last shows all)"]
        self._interaction.box(Box.OUTPUT, lines)
        event = {"callId": result.call_id, "name": result.name, "content": result.text}
        self._interaction.event("result", {**event, "isError": True} if result.is_error else event)


def _error(call: Call, text: str) -> Result:
    return Result(call.id, call.name, text, is_error=True)
