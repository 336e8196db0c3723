"""Runs calls for programs: a list of calls in, the list of their results out, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agent.approval import Guard
from agent.call_arguments import read_arguments
from agent.context.budget import LARGEST_RESULT
from agent.conversation.call_runner import CallRunner
from agent.conversation.repeated_calls import RepeatedCalls
from agent.conversation.toolbox import Toolbox
from agent.interaction import Interaction
from agent.messages import Call, Result


async def execute_calls(
    calls: Iterable[Mapping[str, Any]],
    toolbox: Toolbox,
    guard: Guard,
    interaction: Interaction,
    *,
    clock: Callable[[], float],
    seconds: float = 120.0,
) -> list[dict[str, Any]]:
    """The results `{callId, content, isError?}` of calls `{id, name, input}`; `isError` only where true.

    Args:
        calls: `input` may be an object, JSON text or absent.
        toolbox: refreshed by the caller.
        guard: decides on each call.
        interaction: where calls and results are shown.
        clock: monotonic seconds.
        seconds: how long each call may take.

    Raises:
        Aborted: the person cancelled at a question.
    """
    runner, repeats = CallRunner(toolbox, guard, interaction, clock), RepeatedCalls()
    return [
        _value(await runner.run(_call(one), repeats, seconds=seconds, most=LARGEST_RESULT)) for one in calls
    ]


def _call(value: Mapping[str, Any]) -> Call:
    arguments, problem = read_arguments(value.get("input"))
    return Call(str(value.get("id", "")), str(value.get("name", "")), arguments, problem)


def _value(result: Result) -> dict[str, Any]:
    value: dict[str, Any] = {"callId": result.call_id, "content": result.text}
    return {**value, "isError": True} if result.is_error else value
