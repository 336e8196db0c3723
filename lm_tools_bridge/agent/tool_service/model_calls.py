"""Runs the calls of a program's own model: a list of calls in, the list of their results out, in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from lm_tools_bridge.agent.call_arguments import read_arguments
from lm_tools_bridge.agent.result_text import NO_SOURCES, result_text
from lm_tools_bridge.agent.tool_service.errors import ConnectionLost, ToolServiceError

_FAILED: Final = "Error: Tool call failed: {}"


RunTool = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Runs a tool: `ToolService.execute_tool`, or `ToolClient.call_tool` over a connection."""


async def execute_calls(run: RunTool | None, calls: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The results `{callId, content, isError?}` of calls `{id, name, input}`; `isError` only where true.

    Args:
        run: runs a tool; None if there is nothing that could.
        calls: as a model made them. `input` may be an object, JSON text or absent.

    Returns:
        One result for each call, in the order of the calls. `content` is text: the text blocks, joined by
        newlines, and names of other blocks, such as `[image image/png, 12 KB]`.
    """
    return [await _result(run, call) for call in calls]


async def _result(run: RunTool | None, call: Mapping[str, Any]) -> dict[str, Any]:
    identity = str(call.get("id", ""))
    if run is None:
        return _error(identity, NO_SOURCES)
    arguments, problem = read_arguments(call.get("input"))
    if arguments is None:
        return _error(identity, problem or "Error: arguments must be an object")
    try:
        result = await run(str(call.get("name", "")), arguments)
    except ToolServiceError as refusal:
        return _error(identity, str(refusal))
    except (ConnectionLost, TimeoutError, OSError) as error:
        return _error(identity, _FAILED.format(error or type(error).__name__))
    text = result_text(result["content"], result.get("structuredContent"))
    return _error(identity, text) if result.get("isError") else {"callId": identity, "content": text}


def _error(identity: str, text: str) -> dict[str, Any]:
    return {"callId": identity, "content": text, "isError": True}
