"""Asks a second time when a language server ended while a tool asked it: the next one is started by then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import ServerGone
from workspace_server.results import clean_text
from workspace_server.tool import CallOutcome, ToolError, ToolResult

FIRST_S: Final = 20.0
"""A first try that took longer is not repeated: what ended the server may end the next one, too."""


async def answered(ask: Callable[[], Awaitable[CallOutcome]]) -> CallOutcome:
    """The answer of the second try, if a server ended during the first one; else that of the first.

    Args:
        ask: runs the tool. It changes nothing if a server ends meanwhile.

    Raises:
        ToolError: the tool failed, or a server ended again.
    """
    outcome: CallOutcome | ToolError
    begun = asyncio.get_running_loop().time()
    try:
        outcome = await ask()
        if not (isinstance(outcome, ToolResult) and _has_crashed(outcome.structured)):
            return outcome
    except ToolError as failure:
        if not _has_crashed(failure.structured):
            raise
        outcome = failure
    except ServerGone as gone:
        outcome = _gone(gone)
    if asyncio.get_running_loop().time() - begun <= FIRST_S:
        try:
            return await ask()
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
