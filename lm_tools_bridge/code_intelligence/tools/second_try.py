"""Asks a second time when a language server ended while a tool asked it: the next one is started by then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import ServerGone
from lm_tools_bridge.code_intelligence.tools.schemas import DEFAULT_WAIT_S
from workspace_server.results import clean_text
from workspace_server.tool import CallOutcome, ToolError, ToolResult

FIRST_S: Final = 20.0
"""A first try that took longer is not repeated: what ended the server may end the next one, too."""


async def answered(
    ask: Callable[[Mapping[str, Any]], Awaitable[CallOutcome]], arguments: Mapping[str, Any]
) -> CallOutcome:
    """The answer of the second try, if a server ended during the first one; else that of the first.

    Args:
        ask: runs the tool. It changes nothing if a server ends meanwhile.
        arguments: those of the call. Both tries together wait as long as they say.

    Raises:
        ToolError: the tool failed, or a server ended again.
    """
    outcome: CallOutcome | ToolError
    begun = asyncio.get_running_loop().time()
    try:
        outcome = await ask(arguments)
        if not (isinstance(outcome, ToolResult) and _has_crashed(outcome.structured)):
            return outcome
    except ToolError as failure:
        if not _has_crashed(failure.structured):
            raise
        outcome = failure
    except ServerGone as gone:
        outcome = _gone(gone)
    passed_s = asyncio.get_running_loop().time() - begun
    if passed_s <= FIRST_S:
        try:
            left_s = float(arguments.get("waitS", DEFAULT_WAIT_S)) - passed_s
            return await ask({**arguments, "waitS": max(0.0, left_s)})
        except ServerGone as gone:
            outcome = _gone(gone)
    if isinstance(outcome, ToolError):
        raise outcome
    return outcome


def _gone(gone: ServerGone) -> ToolError:
    return ToolError(f"{clean_text(str(gone))}; call again")


def _has_crashed(structured: Any) -> bool:
    """Whether a part of the answer is missing because its server ended."""
    parts = structured.get("freshness") if isinstance(structured, Mapping) else None
    return isinstance(parts, list) and any(
        isinstance(part, Mapping) and part.get("state") == "crashed" for part in parts
    )
