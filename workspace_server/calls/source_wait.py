"""Waits for sources that are starting, so that an early call of one of their tools succeeds."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from lm_tools_bridge.protocol import names
from workspace_server import naming
from workspace_server.calls.call import Call
from workspace_server.catalog.toolset import Toolset
from workspace_server.catalog.view import View
from workspace_server.results import clean_text
from workspace_server.source import Source
from workspace_server.tool_search.definitions import SEARCH_NAMES

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
        return replace(self._call, view=view)

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
