"""Defines which recorded calls are wanted, and matches labels and calls with it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from lm_tools_bridge.recorder.tables import FAILURE, LABEL_COLUMNS, SLOW_US


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
