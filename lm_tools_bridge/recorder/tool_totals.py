"""Counts calls and errors of each tool since the start, for `/metrics`; the number of tools is limited."""

from __future__ import annotations

from typing import Final, NamedTuple

from lm_tools_bridge.recorder.overload import Chosen
from manager.call_observer import TASK, CallLabel, is_failure

MOST_TOOLS: Final = 200
OTHER: Final = "(other)"
"""Stands for all tools after the first `MOST_TOOLS`."""


class ToolTotal(NamedTuple):
    """The calls of one tool of one workspace."""

    workspace: str
    tool: str
    calls: int
    errors: int


class ToolTotals:
    """The counts. One thread adds to them; `listed` may be called from any."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], list[int]] = {}

    def add(self, chosen: Chosen) -> None:
        """Count calls. Calls that are no calls of tools are left out."""
        known: dict[CallLabel, list[int]] = {}
        more = chosen.more
        for index, call in enumerate(chosen.calls):
            label = call.origin.label
            found = known.get(label)
            if found is None:
                found = known[label] = self._count_of(label)
            count = 1 + more.get(index, 0) if more else 1
            if call.outcome == TASK:
                continue  # it counts when it has ended
            found[0] += count
            if is_failure(call.outcome):
                found[1] += count

    def _count_of(self, label: CallLabel) -> list[int]:
        """The counters of a label; for calls that are no calls of tools, some that nobody reads."""
        if label.method != "tools/call" or not label.workspace:
            return [0, 0]
        counts = self._counts
        key = label.workspace, label.tool
        if key not in counts and len(counts) >= MOST_TOOLS:
            key = (OTHER, OTHER)
        return counts.setdefault(key, [0, 0])

    def listed(self) -> tuple[ToolTotal, ...]:
        """A copy of the counts."""
        return tuple(ToolTotal(*key, *value) for key, value in list(self._counts.items()))
