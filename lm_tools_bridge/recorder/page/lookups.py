"""Looks recorded calls up for the page by the filter in its address: in few threads, until a deadline."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlencode

from lm_tools_bridge.page.html import CALLS_PATH
from lm_tools_bridge.recorder.call_log import Call, CallLog, Contents, Filter
from lm_tools_bridge.recorder.server_output import OutputLine, output_during
from lm_tools_bridge.recorder.statistics import ToolFigures, tool_figures
from lm_tools_bridge.text.quantities import moment_of
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


CALL_PATH: Final = "/page/call"
FIGURES_PATH: Final = f"{CALLS_PATH}/figures"
SLOW_MS: Final = 1000.0
"""Milliseconds that the form suggests for slow calls."""
FIELDS: Final = ("client", "project", "tool", "session", "since", "slow", "errors")
"""The names of the form's fields, as options of `lmtb calls`."""
MAX_FIELD: Final = 300
"""Characters of a field; a longer one is refused."""
_LARGEST: Final = 2**53
"""Of a call's number and of a time: every JSON reader keeps it, and it is within the 64 bits of SQLite."""


@dataclass(frozen=True, slots=True)
class CallQuery:
    """What a page of recorded calls was asked for.

    Attributes:
        given: the fields as they were typed, without empty ones.
        wanted: the calls that are shown.
        problem: why a field cannot be used; None if all can.
    """

    given: Mapping[str, str]
    wanted: Filter
    problem: str | None = None


def read_query(query: Mapping[str, str], now_s: float) -> CallQuery:
    """Read the fields of a form.

    Args:
        query: the parameters of the address.
        now_s: seconds since 1970.
    """
    fields = {name: text for name in FIELDS if (text := query.get(name, "").strip())}
    long = next((name for name, text in fields.items() if len(text) > MAX_FIELD), None)
    if long is not None:
        return CallQuery({}, Filter(), f"The field {long} is longer than {MAX_FIELD} characters.")
    since = moment_of(fields["since"], now_s) if "since" in fields else None
    if "since" in fields and since is None:
        return CallQuery(fields, Filter(), "Since is a length of time such as 30m, 2h or 3d, or a date.")
    slow = _slow_us(fields["slow"]) if "slow" in fields else None
    if "slow" in fields and slow is None:
        return CallQuery(fields, Filter(), "Slower than is a number of milliseconds, such as 1000.")
    wanted = Filter(
        client=fields.get("client"),
        project=fields.get("project"),
        tool=fields.get("tool"),
        session=fields.get("session"),
        errors="errors" in fields,
        slower_than_us=slow,
        since_ms=None if since is None else max(-_LARGEST, min(since, _LARGEST)),
        before=call_number(query.get("before", "")),
    )
    return CallQuery(fields, wanted)


def call_number(text: str) -> int | None:
    """The id of a call in an address; None if it is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        return None
    number = int(text)
    return number if 0 < number < _LARGEST else None


def address(path: str, fields: Mapping[str, object], **more: object) -> str:
    """The address of a page with these fields."""
    fields = {name: str(value) for name, value in {**fields, **more}.items()}
    return f"{path}?{urlencode(fields, errors='surrogatepass')}" if fields else path


def _slow_us(text: str) -> int | None:
    try:
        milliseconds = float(text)
    except ValueError:
        return None
    return round(milliseconds * 1000) if 0 <= milliseconds <= 1e9 else None
