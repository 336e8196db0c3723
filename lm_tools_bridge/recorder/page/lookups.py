"""Looks recorded calls up for the page: in threads, few at a time, and not for longer than a deadline."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from lm_tools_bridge.recorder.call_filter import Filter
from lm_tools_bridge.recorder.call_log import Call, CallLog, Contents
from lm_tools_bridge.recorder.server_output import OutputLine, output_during
from lm_tools_bridge.recorder.statistics import ToolFigures, tool_figures
from manager.disk.disk_lookups import DiskLookups, NoAnswer

DEADLINE_S: Final = 5.0
"""Longest time of one look-up."""
MOST_AT_ONCE: Final = 4
"""Most look-ups that run at a time."""
PAGE_CALLS: Final = 50
"""Calls on one page."""
MOST_FIGURES: Final = 200
"""Most tools and clients with figures on one page."""
MOST_NAMES: Final = 200
"""Most names that a field of the form suggests."""
_NAMED: Final = ("client", "project", "tool")

_Found = TypeVar("_Found")


class FoundCalls(NamedTuple):
    """A page of recorded calls, newest first.

    Attributes:
        older: whether older ones match, too.
        has_any: whether any call is recorded.
        names: the names that occur, by field of the form.
    """

    calls: list[Call]
    older: bool
    has_any: bool
    names: dict[str, list[str]]


class FoundCall(NamedTuple):
    """One call, its contents if they were recorded, and what its server logged meanwhile."""

    call: Call
    contents: Contents | None
    output: list[OutputLine]


class FoundFigures(NamedTuple):
    """The figures of each tool and client, most calls first; `left_out` counts those that are not shown."""

    figures: list[ToolFigures]
    left_out: int
    names: dict[str, list[str]]


class CallLookups:
    """Looks up recorded calls. A method returns what it found, or a sentence that says why there is nothing.

    Args:
        file: the database of calls.
        logs: the folder of the servers' logs.
        write_now: writes the calls that have ended; called in a thread before each look.
    """

    def __init__(
        self,
        file: Path,
        logs: Path,
        write_now: Callable[[], object] | None = None,
        *,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._file = file
        self._logs = logs
        self._write_now = write_now
        self._deadline_s = deadline_s
        self._disk = DiskLookups(
            deadline_s=deadline_s + 1, max_hanging=MOST_AT_ONCE, max_running=MOST_AT_ONCE
        )

    async def calls(self, call_filter: Filter) -> FoundCalls | str:
        """The newest calls that match."""

        def look(log: CallLog | None) -> FoundCalls:
            if log is None:
                return FoundCalls([], older=False, has_any=False, names={})
            newest = log.find(call_filter, PAGE_CALLS + 1)
            older = len(newest) > PAGE_CALLS
            return FoundCalls(newest[:PAGE_CALLS], older, log.last_id() > 0, _names(log))

        return await self._look(("calls", call_filter), look)

    async def call(self, number: int) -> FoundCall | str | None:
        """The call with this id; None if there is none."""

        def look(log: CallLog | None) -> FoundCall | None:
            call = None if log is None else log.get(number)
            if log is None or call is None:
                return None
            return FoundCall(call, log.contents(number), output_during(self._logs, call))

        return await self._look(("call", number), look)

    async def figures(self, call_filter: Filter) -> FoundFigures | str:
        """The figures of each tool and client."""

        def look(log: CallLog | None) -> FoundFigures:
            if log is None:
                return FoundFigures([], 0, {})
            rows = tool_figures(log.figures(call_filter))
            return FoundFigures(rows[:MOST_FIGURES], max(0, len(rows) - MOST_FIGURES), _names(log))

        return await self._look(("figures", call_filter), look)

    async def _look(self, key: Hashable, look: Callable[[CallLog | None], _Found]) -> _Found | str:
        def work() -> _Found | str:
            if self._write_now is not None:
                self._write_now()
            try:
                log = CallLog.open(self._file)
                if log is None:
                    return look(None)
                with log:
                    log.limit(self._deadline_s)
                    return look(log)
            except sqlite3.Error as error:
                return _why(error)

        answer = await self._disk.run(key, work)
        if answer is NoAnswer.BUSY:
            return "Too many look-ups run at the moment: reload the page soon."
        return _LATE if isinstance(answer, NoAnswer) else answer


_LATE: Final = "The look-up took too long. Ask for less: a project, a tool, or a shorter time."


def _why(error: sqlite3.Error) -> str:
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
        return _LATE
    return f"The recorded calls cannot be read: {error}. Check with: lmtb doctor"


def _names(log: CallLog) -> dict[str, list[str]]:
    return {name: log.names(name)[:MOST_NAMES] for name in _NAMED}
