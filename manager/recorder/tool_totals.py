"""Counts calls and errors of each tool since the start, for `/metrics`; the number of tools is limited."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from manager.recorder.ended_call import EndedCall

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

    def add(self, calls: Iterable[EndedCall]) -> None:
        """Count calls. Calls that are no calls of tools are left out."""
        counts = self._counts
        for call in calls:
            label = call[0].label
            if label.method != "tools/call" or not label.workspace:
                continue
            key = label.workspace, label.tool
            found = counts.get(key)
            if found is None:
                key = key if len(counts) < MOST_TOOLS else (OTHER, OTHER)
                found = counts.setdefault(key, [0, 0])
            found[0] += 1
            found[1] += call[4] != "ok"

    def listed(self) -> tuple[ToolTotal, ...]:
        """A copy of the counts."""
        return tuple(ToolTotal(*key, *value) for key, value in list(self._counts.items()))
