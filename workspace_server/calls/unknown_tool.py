"""Answers calls of unknown names: waits for sources that are starting, else says why the tool is not there.

The tool may wait for trust, or its source may not have answered yet.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any, Final

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.errors import RETRY_STEP, Reason, Refusal
from lm_tools_bridge.protocol.inbound import Rejection
from workspace_server import naming
from workspace_server.calls.call import Call
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.toolset import Toolset
from workspace_server.catalog.view import Kind, View
from workspace_server.results import clean_text, encode_result, refusal_result
from workspace_server.source import NOT_RUNNING, Source, not_running
from workspace_server.tool import Tool
from workspace_server.tool_search.definitions import SEARCH_NAMES
from workspace_server.trust.item import trust_command

_HELPLESS: Final = frozenset({"auth_required", "failed", "crash_looping"})
UNSURE_WAIT_S: Final = 10.0
"""Longest wait for a source that has failed before, or that any misspelt name might belong to."""
HELPLESS_WAIT_S: Final = 2.0
"""Longest wait for a source that failed and needs its user: long enough for one more try."""
SEARCH_WAIT_S: Final = 10.0
"""Longest wait of a search for sources that have not listed their tools yet."""
EMPTY_SEARCH_WAIT_S: Final = 15.0
"""Longest further wait of a search that found nothing. Both together are less than half of the minute that
the least patient client waits."""
PATIENT_S: Final = 45.0
"""Longest wait for a source that starts for the first time, which may take minutes. The least patient clients
give up after one, and should be told why before."""
PROGRESS_S: Final = 2.0
"""Seconds between two progress notifications to a caller that wants them."""
LOOK_S: Final = 0.05
"""Seconds between two looks: each may list a source once more, whose failure is a change to look at."""
PROGRESS_STEP: Final = 0.001
"""So little that the progress of the tool itself, which follows, is more."""


async def with_listed_source(call: Call, toolset: Toolset) -> Call:
    """Wait while the source that may have this unknown tool is starting.

    Returns:
        The call under the newest view, which contains the tool if its source has listed it within the time
        limit of calls.
    """
    limit_s = call.view.configuration.call_timeout_s

    def seconds_left(view: View, waited_s: float) -> float:
        source = view.source_without_list(call.name)
        if source is None or not view.expects_tools(source):
            return 0.0
        return min(limit_s, _longest_s(source), PATIENT_S) - waited_s

    return await _Wait(call, toolset).while_positive(seconds_left)


async def with_all_sources(call: Call, toolset: Toolset, limit_s: float) -> Call:
    """Wait, at most `limit_s`, until no source is starting; returns the call under the newest view."""

    def seconds_left(view: View, waited_s: float) -> float:
        return limit_s - waited_s if view.is_listing else 0.0

    return await _Wait(call, toolset).while_positive(seconds_left)


def _longest_s(source: Source) -> float:
    """Seconds that a source without a list is worth waiting for."""
    if source.state in _HELPLESS:
        return HELPLESS_WAIT_S
    return UNSURE_WAIT_S if source.state == "backoff" or naming.is_bare(source) else math.inf


class _Wait:
    """The wait of one call, with progress notifications."""

    def __init__(self, call: Call, toolset: Toolset) -> None:
        self._call = call
        self._toolset = toolset
        self._token = call.request.inbound.meta.get("progressToken")
        self._began = time.monotonic()
        self._count = 0

    async def while_positive(self, seconds_left: Callable[[View, float], float]) -> Call:
        """Wait while the seconds left, for a view and the seconds waited so far, are positive."""
        view = self._call.view
        looks = 0
        while (left := seconds_left(view, time.monotonic() - self._began)) > 0:
            await self._toolset.wait_for_change(min(left, PROGRESS_S))
            if looks:
                await asyncio.sleep(LOOK_S)
            looks += 1
            view = await self._toolset.current(first_wait_s=0.0)
            await self._notify(view)
        return self._call.under(view)

    async def _notify(self, view: View) -> None:
        waited_s = time.monotonic() - self._began
        if self._token is None or waited_s < (self._count + 1) * PROGRESS_S:
            return
        self._count += 1
        params = {
            "progressToken": self._token,
            "progress": self._count * PROGRESS_STEP,
            "message": f"waiting for {_awaited(self._call, view)} to start ({waited_s:.0f} s)",
        }
        await self._call.request.notify(names.PROGRESS, params)


def _awaited(call: Call, view: View) -> str:
    """What the call waits for: a search for all sources, another call for the source of its tool."""
    if call.name in SEARCH_NAMES and view.starting:
        return ", ".join(clean_text(source.id.partition(":")[2] or source.id) for source in view.starting)
    return f"the server of {call.name}"


# About what a server on this machine takes to start and to list its tools.
RETRY_MS: Final = 1000


def answer(call: Call) -> Outcome:
    """The answer to a call of an unknown tool."""
    refusal = _not_available(call.view, call.name, "tools")
    if refusal is None:
        return unknown_tool(call.request, call.view, call.name)
    return encode_result(refusal_result(Tool(call.name, {"inputSchema": {}}), refusal))


def may_exist(view: View, name: str) -> bool:
    """Whether something suggests that a tool of this name exists, though it cannot be called now."""
    return _not_available(view, name, "tools") is not None


def unknown_prompt(request: McpRequest, view: View, name: str) -> Rejection:
    """The answer to `prompts/get` of an unknown prompt."""
    refusal = _not_available(view, name, "prompts")
    return request.invalid(f"Unknown prompt: {name}") if refusal is None else request.refuse(refusal)


def unknown_tool(request: McpRequest, view: View, name: str, uri: str | None = None) -> Rejection:
    """The error for a tool that does not exist for this client, with similar names.

    Args:
        uri: the URI that contained the name, if there was one.
    """
    nearest = view.nearest(name)
    if (client_names := view.names_for(request.name_rules)) is not None:
        nearest = [client_names.shown_name(near) for near in nearest]
    step = Reason.TOOL_NOT_FOUND.next_step
    if nearest:
        step = f"use {' or '.join(nearest)} if that was meant, or {step}"
    details: dict[str, Any] = {"nearest": nearest}
    extra = {}
    if uri is not None:
        details["uri"] = extra["uri"] = uri
    message = f"Tool not found or disabled: {name}"
    if (reason := _left_out(view, name)) is not None:
        message, step = f"{name} is left out: {reason}", "ask the user to correct that"
    return request.refuse(Refusal(Reason.TOOL_NOT_FOUND, message, step, details=details), **extra)


def _left_out(view: View, name: str) -> str | None:
    """Why a script tool of this name is not offered, if its folder has a mistake."""
    for issue in view.issues:
        place, _, reason = issue.message.partition(" is left out: ")
        if issue.code == "SCRIPT_TOOL_INVALID" and place.rpartition("/")[2] == name:
            return reason
    return None


def _not_available(view: View, name: str, kind: Kind) -> Refusal | None:
    """Why the name may exist later; None if nothing suggests that."""
    if (path := view.trust_path_for(name)) is not None:
        text = f"{name} comes from files of this workspace that the user has not trusted as they are now"
        step = f"ask the user to look at it and to run: {trust_command(path)}"
        if hint := view.trust_hint_for(name):
            text += f": {hint}"
        return Refusal(Reason.WORKSPACE_PENDING_TRUST, text, step, delivered="no")
    if (source := view.source_down(name)) is not None:
        return not_running(source.id, source.state, source.error, source.retry_after_ms)
    if (refusal := _withdrawn(view, name)) is not None:
        return refusal
    source = view.source_without_list(name, kind)
    return None if source is None else _not_listed(source, kind)


def _withdrawn(view: View, name: str) -> Refusal | None:
    """The refusal for a tool that its source offered until a moment ago."""
    for source in view.snapshot.sources:
        if (reason := source.withdrawn(name)) is not None:
            details = {"source": source.id, "state": source.state, "error": reason}
            text = f'{name} is not there now: {reason} (source "{source.id}")'
            step = f"ask the user to open it again, then {RETRY_STEP}"
            return Refusal(Reason.SOURCE_UNAVAILABLE, text, step, "no", RETRY_MS, details)
    return None


def _not_listed(source: Source, kind: Kind) -> Refusal:
    """The refusal for a name that may belong to a source which has not listed anything yet."""
    if source.state in NOT_RUNNING:
        return not_running(source.id, source.state, source.error, source.retry_after_ms)
    error = clean_text(source.error or f"it is {source.state}")
    text = f'Source "{source.id}" has not listed its {kind} yet: {error}'
    details = {"source": source.id, "state": source.state, "error": error}
    step = f"{RETRY_STEP}; lmtb servers shows the state of the source"
    return Refusal(Reason.SOURCE_UNAVAILABLE, text, step, "no", RETRY_MS, details)
