"""Shows recorded calls as tables and facts. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, tzinfo
from typing import Any, Final

import msgspec

from lm_tools_bridge.recorder.call_log import Call, Contents
from lm_tools_bridge.recorder.statistics import ToolFigures
from lm_tools_bridge.terminal.views import Column, Fact, FactList, Kind, Note, Table, Tone, View
from lm_tools_bridge.text.quantities import latency
from manager.call_observer import is_failure

COLUMNS: Final = (
    Column("ID", Kind.NAME),
    Column("TIME", Kind.NAME),
    Column("TOOL", Kind.TEXT),
    Column("CLIENT", Kind.TEXT, rank=1),
    Column("PROJECT", Kind.TEXT, rank=2),
    Column("TOOK", Kind.LATENCY),
    Column("BYTES", Kind.NUMBER, rank=3),
    Column("OUTCOME", Kind.NAME),
)
FIGURE_COLUMNS: Final = (
    Column("TOOL", Kind.TEXT),
    Column("CLIENT", Kind.TEXT, rank=1),
    Column("CALLS", Kind.NUMBER),
    Column("ERRORS", Kind.NUMBER),
    Column("P50", Kind.LATENCY),
    Column("P99", Kind.LATENCY),
    Column("SENT", Kind.NUMBER, rank=3),
    Column("RECEIVED", Kind.NUMBER, rank=2),
    Column("~TOKENS", Kind.NUMBER),
)
LONGEST_CONTENT: Final = 4_000
"""Characters of arguments and of a result that people see; `--json` has all."""


def call_table(calls: Iterable[Call], now_ms: float, zone: tzinfo | None = None) -> Table:
    """A row for each call."""
    return Table(COLUMNS, [call_row(call, now_ms, zone) for call in calls])


def call_row(call: Call, now_ms: float, zone: tzinfo | None = None) -> tuple[object, ...]:
    """The cells of a call."""
    return (
        call.id,
        clock_time(call.at, now_ms, zone),
        call.tool or call.method,
        call.client,
        call.project,
        call.took / 1000,
        call.received,
        f"{call.outcome}{_others(call)}",
    )


def call_line(call: Call, now_ms: float, zone: tzinfo | None = None) -> str:
    """A call on one line, for following."""
    who = f"{call.client or '-'} {call.project or '-'}"
    took = latency(call.took / 1000)
    when, what = clock_time(call.at, now_ms, zone), call.tool or call.method
    return f"{call.id:>7} {when} {what} ({who}) {took} {call.outcome}{_others(call)}"


def clock_time(at_ms: float, now_ms: float, zone: tzinfo | None = None) -> str:
    """The time of day, with the date if that is another day."""
    at, now = (datetime.fromtimestamp(moment_ms / 1000, zone) for moment_ms in (at_ms, now_ms))
    return at.strftime("%H:%M:%S" if at.date() == now.date() else "%m-%d %H:%M:%S")


def call_facts(call: Call, zone: tzinfo | None = None) -> FactList:
    """All that is known of one call."""
    at = datetime.fromtimestamp(call.at / 1000, zone)
    failed = is_failure(call.outcome)
    code = f" (code {call.code})" if call.code is not None else ""
    facts = [
        ("time", at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]),
        ("client", " ".join(word for word in (call.client, call.client_version) if word) or "did not say"),
        ("protocol", f"{call.revision}, {'a session' if call.session else 'stateless'}"),
        ("session", call.session),
        ("project", call.project),
        ("found by", call.decided_by),
        ("method", call.method),
        ("tool", call.tool),
        ("source", call.source),
        ("outcome", f"{call.outcome}{code}"),
        ("took", _times(call)),
        ("sizes", f"{call.sent:,} bytes of arguments, {_bytes(call.received)} of answer"),
        (
            "others",
            f"{call.more:,} more calls like it, which have no record of their own" if call.more else None,
        ),
        ("retries", str(call.retries) if call.retries else None),
        ("trace", call.trace),
    ]
    bad = Tone.BAD if failed else None
    return FactList([Fact(label, text, bad if label == "outcome" else None) for label, text in facts if text])


def contents_views(contents: Contents | None) -> list[View]:
    """Arguments and result, as far as they were recorded."""
    if contents is None:
        return [
            "",
            Note("Arguments and result were not recorded; for later calls: lmtb record on --contents"),
        ]
    views: list[View] = []
    for head, text in (("Arguments", contents.arguments), ("Result", contents.result)):
        if text is not None:
            views += ["", Note(f"{head}:"), *_indented(text)]
    return [*views, *([Note(""), Note(contents.notes)] if contents.notes else [])]


def figure_table(figures: Sequence[ToolFigures]) -> Table:
    """A row for each tool and client."""
    rows = [
        (row.tool or row.method, row.client, row.calls, row.errors, row.p50 / 1000, row.p99 / 1000, row.sent,
         row.received, row.tokens)
        for row in figures
    ]  # fmt: skip
    return Table(FIGURE_COLUMNS, rows)


def as_json(value: Call | ToolFigures | Contents) -> dict[str, Any]:
    """A value as programs get it."""
    members: dict[str, Any] = msgspec.to_builtins(value)
    return members


def _times(call: Call) -> str:
    parts = (
        ("server", call.server),
        ("of it in the source", call.source_took),
        ("of it waiting for approval", call.approval),
        ("manager", call.manager),
        ("waited for a connection", call.queue),
        ("for the server's start", call.start),
        ("client's input before", call.asked),
    )
    parts_text = ", ".join(f"{name} {latency(us / 1000)}" for name, us in parts if us is not None)
    return f"{latency(call.took / 1000)}{f' ({parts_text})' if parts_text else ''}"


def _others(call: Call) -> str:
    return f" (and {call.more:,} more like it)" if call.more else ""


def _bytes(count: int | None) -> str:
    return "an unknown number" if count is None else f"{count:,}"


def _indented(text: str) -> list[View]:
    with suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    cut = text[:LONGEST_CONTENT]
    lines: list[View] = [f"  {line}" for line in cut.splitlines()]
    return [*lines, "  … all of it with --json"] if len(cut) < len(text) else lines
