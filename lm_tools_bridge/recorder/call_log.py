"""Answers questions about recorded calls: the newest that match a filter, one call, figures of each tool.

It opens the database read-only, so that any thread or process may use it beside the recorder. A search first
chooses the labels that match, which are few, and reads only the blocks in which these occur, newest first.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import trace_context
from lm_tools_bridge.recorder.database import (
    ANY,
    BLOCK,
    CALL_COLUMNS,
    FAILED,
    FAILURE,
    ID_RANGE,
    LABEL_COLUMNS,
    SLOW,
    SLOW_US,
    open_to_read,
)
from lm_tools_bridge.recorder.retention import used_bytes


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls are wanted; None and False mean any. Names may contain `*` and `?`.

    Attributes:
        project: id of a workspace, or its part before the hash.
        errors: only calls that failed (`ended_call.is_failure`).
        slower_than_us: only calls that took at least so many microseconds.
        since_ms: only calls that began at or after this time (ms since 1970).
        session: digest of a session.
        before, after: only calls with a lower, or a higher, id.
    """

    client: str | None = None
    project: str | None = None
    tool: str | None = None
    source: str | None = None
    errors: bool = False
    slower_than_us: int | None = None
    since_ms: int | None = None
    session: str | None = None
    before: int | None = None
    after: int | None = None


def matching(call_filter: Filter, labels: Mapping[int, Sequence[Any]]) -> list[int]:
    """The ids of the labels that match; `labels` has the values of `LABEL_COLUMNS` by id."""
    return [
        number
        for number, row in labels.items()
        if _fits(call_filter, dict(zip(LABEL_COLUMNS, row, strict=True)))
    ]


def _fits(call_filter: Filter, label: Mapping[str, Any]) -> bool:
    return (
        _is_like(label["client"], call_filter.client)
        and _is_like(label["tool"], call_filter.tool)
        and _is_like(label["source"], call_filter.source)
        and (
            _is_like(label["project"], call_filter.project) or _is_slug(label["project"], call_filter.project)
        )
    )


def _is_like(text: str | None, pattern: str | None) -> bool:
    return pattern is None or fnmatchcase(text or "", pattern)


def _is_slug(project: str | None, name: str | None) -> bool:
    return project is not None and name is not None and project.rpartition("-")[0] == name


def is_slow_only(call_filter: Filter) -> bool:
    """Whether only calls are wanted that count as slow in `blocks`."""
    return call_filter.slower_than_us is not None and call_filter.slower_than_us >= SLOW_US


def conditions(call_filter: Filter, first: int) -> tuple[str, tuple[object, ...]]:
    """The SQL conditions besides those of labels, and their values."""
    parts: list[tuple[str, Iterable[object]]] = [("id>=?", (first,))]
    if call_filter.before is not None:
        parts.append(("id<?", (call_filter.before,)))
    if call_filter.errors:
        parts.append((FAILURE, ()))
    if call_filter.slower_than_us is not None:
        parts.append(("took>=?", (call_filter.slower_than_us,)))
    if call_filter.since_ms is not None:
        parts.append(("at>=?", (call_filter.since_ms,)))
    if call_filter.session is not None:
        parts.append(("session=?", (call_filter.session,)))
    return " AND ".join(part for part, _ in parts), tuple(value for _, values in parts for value in values)


_LABEL: Final = ",".join(("id", *LABEL_COLUMNS))
_STEPS: Final = 20_000
"""Instructions of SQLite, a millisecond or so, between two looks at the clock."""


class Call(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One recorded call; durations in microseconds, `at` in ms since 1970, None where unknown.

    Attributes:
        took: from its arrival to the end of its response.
        queue, start, asked: waits for a connection, for the start of the server, for input of the client.
        approval: the part of `server` in which it waited for a person to approve it.
        manager, server, source_took: the time in the manager, in the workspace server with everything behind
            it, and in the source.
        sent, received: bytes of the arguments and of the answer.
        more: how many calls like it came in the same second and have no record of their own.
    """

    id: int
    at: int
    client: str | None
    client_version: str | None
    era: str
    revision: str
    session: str | None
    project: str | None
    decided_by: str
    method: str
    tool: str | None
    source: str | None
    outcome: str
    code: int | None
    sent: int
    received: int | None
    took: int
    manager: int | None
    server: int | None
    source_took: int | None
    queue: int | None
    start: int | None
    asked: int | None
    approval: int | None
    retries: int
    more: int
    trace: str | None


class Contents(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Arguments and result of a call, as JSON texts without their secrets. `hidden` counts these."""

    arguments: str | None
    result: str | None
    hidden: int
    is_cut: bool

    @property
    def notes(self) -> str:
        """What the texts lack, in sentences; empty if nothing."""
        values = "1 value is" if self.hidden == 1 else f"{self.hidden:,} values are"
        sentences = [f"{values} hidden as secrets."] if self.hidden else []
        sentences += ["What is too long was cut when it was recorded."] if self.is_cut else []
        return " ".join(sentences)


class Coverage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the database holds; times in ms since 1970, None if it is empty."""

    calls: int
    contents: int
    oldest: int | None
    newest: int | None
    bytes: int


class CallLog:
    """The recorded calls. An instance belongs to one thread at a time; close it after use.

    All methods may raise sqlite3.Error.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._columns = ",".join(("id", *_present(database)))

    @classmethod
    def open(cls, path: Path) -> CallLog | None:
        """Open the database; None if nothing was recorded yet.

        Raises:
            sqlite3.Error: it cannot be opened, or a newer version wrote it (`tables.NewerFile`).
        """
        database = open_to_read(path)
        return None if database is None else cls(database)

    def __enter__(self) -> CallLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def limit(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        """End every query that still runs after so many seconds, with SQLITE_INTERRUPT.

        Args:
            now: monotonic seconds.
        """
        end = now() + seconds
        self._database.set_progress_handler(lambda: now() > end, _STEPS)

    # -- calls ----------------------------------------------------------------------------------------------

    def find(self, call_filter: Filter, limit: int) -> list[Call]:
        """The newest calls that match, newest first. For the next page, set `before` to the last id."""
        labels = self._labels()
        numbers = matching(call_filter, labels)
        first = self._first_id(call_filter)
        if not numbers or first is None:
            return []
        where, values = conditions(call_filter, first)
        if len(numbers) == len(labels) and not call_filter.errors and not is_slow_only(call_filter):
            rows = self._select(where, values, limit)
        else:
            rows = self._in_blocks(call_filter, numbers, first, limit)
        return [_call(row, labels) for row in rows]

    def get(self, number: int) -> Call | None:
        """The call with this id."""
        rows = self._select("id=?", (number,), 1)
        return _call(rows[0], self._labels()) if rows else None

    def contents(self, number: int) -> Contents | None:
        """Arguments and result of a call; None if they were not recorded, or are gone."""
        row = self._database.execute(
            "SELECT arguments,result,hidden,is_cut FROM contents WHERE call=?", (number,)
        ).fetchone()
        if row is None:
            return None
        arguments, result = (
            None if content is None else bytes(content).decode("utf-8", "replace") for content in row[:2]
        )
        return Contents(arguments=arguments, result=result, hidden=row[2], is_cut=bool(row[3]))

    def names(self, member: str) -> list[str]:
        """All values of `client`, `project`, `tool` or `source` that recorded calls have, in order."""
        at = LABEL_COLUMNS.index(member)
        return sorted({row[at] for row in self._labels().values() if row[at]})

    def last_id(self) -> int:
        """The highest id; 0 if there are no calls."""
        return int(self._database.execute("SELECT coalesce(max(id),0) FROM calls").fetchone()[0])

    def in_order(self, call_filter: Filter, page: int = 1_000) -> Iterator[Call]:
        """All calls that match, oldest first."""
        labels = self._labels()
        numbers, after = set(matching(call_filter, labels)), self._first_id(call_filter)
        while numbers and after is not None:
            where, values = conditions(call_filter, after)
            sql = f"SELECT {self._columns} FROM calls WHERE {where} ORDER BY id LIMIT {page}"
            rows = self._database.execute(sql, values).fetchall()
            yield from (_call(row, labels) for row in rows if row[1] in numbers)
            after = rows[-1][0] + 1 if len(rows) == page else None

    def coverage(self) -> Coverage:
        """How much is recorded."""
        row = self._database.execute(
            "SELECT (SELECT count(*) FROM calls),(SELECT count(*) FROM contents),"
            "(SELECT at FROM calls ORDER BY id LIMIT 1),(SELECT at FROM calls ORDER BY id DESC LIMIT 1)"
        ).fetchone()
        size = used_bytes(self._database)
        return Coverage(calls=row[0], contents=row[1], oldest=row[2], newest=row[3], bytes=size)

    def figures(self, call_filter: Filter) -> Iterator[tuple[Call, int, int, int | None, bool]]:
        """For statistics, of each call that matches: a call of its label, then its own duration in
        microseconds, bytes of arguments, bytes of the answer, and whether it failed. In no order. Calls
        without a record are taken to be as the one that stands for them. Those that go on as tasks are left
        out: their ends are calls of their own."""
        labels, first = self._labels(), self._first_id(call_filter)
        zeros = (0,) * (len(CALL_COLUMNS) - 1)
        samples = {label: _call((0, label, *zeros), labels) for label in matching(call_filter, labels)}
        if not samples or first is None:
            return
        where, values = conditions(call_filter, first)
        columns = f"label,took,sent,received,{FAILURE},more"
        sql = f"SELECT {columns} FROM calls WHERE {where} AND outcome IS NOT 'task'"
        for label, took, sent, received, failed, more in self._database.execute(sql, values):
            if sample := samples.get(label):
                yield from repeat((sample, took, sent, received, bool(failed)), 1 + (more or 0))

    # -- parts of a search ----------------------------------------------------------------------------------

    def _select(self, where: str, values: Sequence[object], limit: int) -> list[tuple[Any, ...]]:
        sql = f"SELECT {self._columns} FROM calls WHERE {where} ORDER BY id DESC LIMIT {limit}"
        return self._database.execute(sql, values).fetchall()

    def _in_blocks(
        self, call_filter: Filter, labels: Sequence[int], first: int, limit: int
    ) -> list[tuple[Any, ...]]:
        """Read the newest rows of these labels, in the blocks that have some."""
        label_list = ",".join(map(str, labels))
        where, values = conditions(call_filter, first)
        where = f"{where} AND label IN ({label_list}) AND id BETWEEN ? AND ?"
        kind = FAILED if call_filter.errors else SLOW if is_slow_only(call_filter) else ANY
        sql = f"SELECT DISTINCT block FROM blocks WHERE kind={kind} AND label IN ({label_list}) AND block>=?"
        blocks = sorted(self._database.execute(sql, (first // BLOCK,)), reverse=True)
        rows: list[tuple[Any, ...]] = []
        for (block,) in blocks:
            if call_filter.before is not None and block * BLOCK >= call_filter.before:
                continue
            bounds = (block * BLOCK, block * BLOCK + BLOCK - 1)
            rows += self._select(where, (*values, *bounds), limit - len(rows))
            if len(rows) == limit:
                break
        return rows

    def _labels(self) -> dict[int, tuple[Any, ...]]:
        return {row[0]: row[1:] for row in self._database.execute(f"SELECT {_LABEL} FROM labels")}

    def _first_id(self, call_filter: Filter) -> int | None:
        """The lowest id that can match; None if none can. Found by halving: ids ascend with the ends of
        calls, and no call ended before it began."""
        low, high = self._database.execute(ID_RANGE).fetchone()
        if low is None:
            return None
        low = max(low, (call_filter.after or 0) + 1)
        if call_filter.since_ms is None:
            return int(low) if low <= high else None
        while low <= high:
            middle = (low + high) // 2
            sql = "SELECT id,at+took/1000 FROM calls WHERE id>=? ORDER BY id LIMIT 1"
            number, ended_at = self._database.execute(sql, (middle,)).fetchone()
            if ended_at >= call_filter.since_ms:
                high = middle - 1
            else:
                low = number + 1
        return int(low)


def _present(database: sqlite3.Connection) -> Iterator[str]:
    """The columns of a call; NULL for those that the file of an older version does not have."""
    columns = {row[1] for row in database.execute("PRAGMA table_info(calls)")}
    return (name if name in columns else "NULL" for name in CALL_COLUMNS)


def _call(row: Sequence[Any], labels: dict[int, tuple[Any, ...]]) -> Call:
    values = dict(zip(("id", *CALL_COLUMNS), row, strict=True))
    label = dict(zip(LABEL_COLUMNS, labels.get(values.pop("label"), _UNKNOWN), strict=True))
    values["source_took"] = values.pop("source")
    if trace_number := values.pop("made_trace"):
        values["trace"] = trace_context.make_traceparent(trace_number).decode()
    values["outcome"] = values["outcome"] or "ok"
    values["retries"], values["more"] = values["retries"] or 0, values["more"] or 0
    values["manager"] = _own_time(values)
    return Call(**values, **label)


def _own_time(values: dict[str, Any]) -> int | None:
    """The manager's part of the duration."""
    if values["server"] is None:
        return None
    waited: int = (values["queue"] or 0) + (values["start"] or 0)
    return max(0, int(values["took"]) - int(values["server"]) - waited)


_UNKNOWN: Final = (None, None, "", "", None, "", None, None, "")
"""The label of a call that was recorded after the labels were read."""
