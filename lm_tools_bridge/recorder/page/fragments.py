"""Renders the list of recorded calls with its filters, and the figures of each tool and client. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from html import escape
from typing import Final

from lm_tools_bridge.page.html import CALLS_PATH, capitalized, document, link, table, text, toned
from lm_tools_bridge.recorder.call_log import Call
from lm_tools_bridge.recorder.page.lookups import (
    CALL_PATH,
    FIGURES_PATH,
    SLOW_MS,
    CallQuery,
    FoundCalls,
    FoundFigures,
    address,
)
from lm_tools_bridge.recorder.statistics import ToolFigures
from lm_tools_bridge.terminal.views import Tone
from lm_tools_bridge.text.printable import printable
from lm_tools_bridge.text.quantities import latency
from manager.call_observer import TASK

_EMPTY: Final = "No call is recorded yet: each appears half a second after it has ended."
_NONE_KEPT: Final = "No call is recorded."
_NO_MATCH: Final = "No recorded call matches."
_NOTE: Final = (
    "<p>Names may contain <code>*</code> and <code>?</code>. At a terminal: <code>lmtb calls</code>, "
    "<code>lmtb calls stats</code>.</p>"
)
_OUTCOMES: Final = {"ok": Tone.GOOD, "input_required": Tone.BUSY, TASK: Tone.BUSY, "cancelled": Tone.OFF}
_TEXT_FIELDS: Final = {
    "client": ("Client", ""),
    "project": ("Project", ""),
    "tool": ("Tool", ""),
    "session": ("Session", ""),
    "since": ("Since", "2h, 3d, or a date"),
    "slow": ("Slower than (ms)", f"{SLOW_MS:.0f}"),
}
"""Name of a field -> its label, and an example."""


def calls_page(
    query: CallQuery,
    answer: FoundCalls | str,
    now_ms: float,
    notice: str | None = None,
    zone: tzinfo | None = None,
) -> str:
    """The list of calls.

    Args:
        answer: the calls, or why there are none.
        now_ms: ms since 1970.
        notice: why newer calls are missing; None if they are recorded.
        zone: in which times are shown; None for that of this machine.
    """
    names = {} if isinstance(answer, str) else answer.names
    sections = {
        "filters": _form(CALLS_PATH, query, names, notice),
        "recorded": _problem(query, answer)
        or _calls(query, answer, now_ms, zone, _EMPTY if notice is None else _NONE_KEPT),
    }
    return document("Calls", sections)


def figures_page(query: CallQuery, answer: FoundFigures | str, notice: str | None = None) -> str:
    """The figures of each tool and client; the arguments are as for `calls_page`."""
    names = {} if isinstance(answer, str) else answer.names
    sections = {
        "filters": _form(FIGURES_PATH, query, names, notice),
        "figures": _problem(query, answer) or _figures(query, answer),
    }
    return document("Figures of calls", sections)


def shown_time(at_ms: float, now_ms: float, zone: tzinfo | None = None) -> str:
    """The time of day, with the date if that is another day."""
    at, now = (datetime.fromtimestamp(moment_ms / 1000, zone) for moment_ms in (at_ms, now_ms))
    return at.strftime("%H:%M:%S" if at.date() == now.date() else "%Y-%m-%d %H:%M:%S")


def outcome(word: str) -> str:
    """The outcome of a call with its mark and colour."""
    return toned(word, _OUTCOMES.get(word, Tone.BAD))


def _problem(query: CallQuery, answer: object) -> str:
    problem = query.problem or (answer if isinstance(answer, str) else None)
    return f'<h2>Calls</h2><p class="state bad" role="alert">{text(problem)}</p>' if problem else ""


def _form(path: str, query: CallQuery, names: Mapping[str, Sequence[str]], notice: str | None) -> str:
    note = f'<p class="state warn" role="note">{text(capitalized(notice))}</p>' if notice else ""
    fields = "".join(
        _field(name, label, example, query.given.get(name, ""), names.get(name, ()))
        for name, (label, example) in _TEXT_FIELDS.items()
    )
    checked = " checked" if "errors" in query.given else ""
    other = (FIGURES_PATH, "Figures") if path == CALLS_PATH else (CALLS_PATH, "Calls")
    return (
        f'<h2>Recorded calls</h2>{note}<form method="get" action="{path}">{fields}'
        f'<label class="check"><input type="checkbox" name="errors" value="1"{checked}> Only errors</label>'
        '<span class="buttons"><button>Show</button> '
        f"{link(path, 'All')} {link(address(other[0], query.given), other[1])}</span></form>{_NOTE}"
    )


def _field(name: str, label: str, example: str, value: str, suggestions: Sequence[str]) -> str:
    list_attribute = f' list="known-{name}"' if suggestions else ""
    options = "".join(f'<option value="{_attribute(suggestion)}"></option>' for suggestion in suggestions)
    data = f'<datalist id="known-{name}">{options}</datalist>' if suggestions else ""
    hint = f' placeholder="{example}"' if example else ""
    return (
        f'<label>{label} <input name="{name}" value="{_attribute(value)}" autocomplete="off"'
        f' spellcheck="false"{hint}{list_attribute}></label>{data}'
    )


def _attribute(value: str) -> str:
    return escape(printable(value))


def _calls(
    query: CallQuery, answer: FoundCalls | str, now_ms: float, zone: tzinfo | None, none_yet: str
) -> str:
    if isinstance(answer, str):
        return ""
    heads = ("Call", "Time", "Tool", "Client", "Project", "Took", "Bytes", "Outcome")
    rows = (_row(call, now_ms, zone) for call in answer.calls)
    empty = _NO_MATCH if answer.has_any else none_yet
    pages = []
    if query.wanted.before is not None:
        pages.append(link(address(CALLS_PATH, query.given), "Newest"))
    if answer.older:
        pages.append(link(address(CALLS_PATH, query.given, before=answer.calls[-1].id), "Older"))
    turn = f'<nav aria-label="Pages"><p class="buttons">{" ".join(pages)}</p></nav>' if pages else ""
    return table("Calls", heads, rows, empty, figures=("Took", "Bytes")) + turn


def _row(call: Call, now_ms: float, zone: tzinfo | None) -> Sequence[str]:
    more = f" (and {call.more:,} more like it)" if call.more else ""
    return (
        link(address(CALL_PATH, {"id": call.id}), call.id),
        text(shown_time(call.at, now_ms, zone)),
        text(call.tool or call.method),
        text(call.client),
        text(call.project),
        text(latency(call.took / 1000)),
        text(None if call.received is None else f"{call.received:,}"),
        outcome(call.outcome) + text(more) if more else outcome(call.outcome),
    )


def _figures(query: CallQuery, answer: FoundFigures | str) -> str:
    if isinstance(answer, str):
        return ""
    heads = ("Tool", "Client", "Calls", "Errors", "p50", "p99", "Sent", "Received", "Tokens (about)")
    rows = (_figure_row(query, tool_row) for tool_row in answer.figures)
    rest = f"<p>{answer.left_out} more: <code>lmtb calls stats</code></p>" if answer.left_out else ""
    return table("Figures", heads, rows, _NO_MATCH, figures=heads[2:]) + rest


def _figure_row(query: CallQuery, tool_row: ToolFigures) -> Sequence[str]:
    name = tool_row.tool or tool_row.method
    choice = {**query.given, **({"tool": tool_row.tool} if tool_row.tool else {})}
    choice |= {"client": tool_row.client} if tool_row.client else {}
    return (
        link(address(CALLS_PATH, choice), name) if tool_row.tool else text(name),
        text(tool_row.client),
        f"{tool_row.calls:,}",
        f"{tool_row.errors:,}",
        text(latency(tool_row.p50 / 1000)),
        text(latency(tool_row.p99 / 1000)),
        f"{tool_row.sent:,}",
        f"{tool_row.received:,}",
        f"{tool_row.tokens:,}",
    )
