"""Writes one page of a symbol's uses: those that a server proved, then lines that may be uses.

A page ends where a limit of entries or of tokens is reached, first in its structured content, which says more
of each entry than its text. Each says by an offset of its own where the next page begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.freshness import Freshness, worst
from lm_tools_bridge.code_intelligence.server import Unavailable
from lm_tools_bridge.code_intelligence.tools import asking, listing
from lm_tools_bridge.code_intelligence.tools.symbols.places import Place
from lm_tools_bridge.code_intelligence.tools.texts import Texts, cut
from lm_tools_bridge.code_intelligence.tools.word_check.comparison import Comparison
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.text.text_tokens import text_tokens
from workspace_server.results import well_formed
from workspace_server.tool import ToolResult

MAX_TOKENS: Final = 8_000
"""Of the entries in an answer's text, and in its structured content, as of diagnostics."""
MAX_WIDTH: Final = 160
"""Characters of a line that stands for a use: what follows is seldom about it."""
_BETWEEN: Final = 2
"""Tokens of what joins two entries."""
_POSSIBLE: Final = "possible uses: lines of code with the word; no server proved them or ruled them out"


@dataclass(frozen=True, slots=True)
class PossibleUse:
    """A line, from 1, that has the word in code, and why no server proved it."""

    path: Path
    line: int
    why: str


@dataclass(frozen=True, slots=True)
class Uses:
    """What is known of a symbol's uses, and the part of it that a page may show.

    Attributes:
        title: first line of the text.
        member: name of the list of uses in `structuredContent`.
        detail: how much of each use is shown: `places`, `lines` or `context`.
        span: which entries the page has at most; possible uses count on after proven ones.
        total: how many uses are proven.
        proven: those of them in `span`.
        possible: all possible uses.
        freshness: how far the server can be trusted.
        unavailable: servers that do not run.
        about: more members, which the text shows as `head`.
    """

    title: str
    member: str
    detail: str
    span: slice
    total: int
    proven: Sequence[Place]
    freshness: Freshness
    unavailable: Sequence[Unavailable]
    possible: Sequence[PossibleUse] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    head: Sequence[str] = ()

    @property
    def possible_in_span(self) -> Sequence[PossibleUse]:
        """The possible uses that the page may show."""
        start, stop = (max(0, number - self.total) for number in (self.span.start, self.span.stop))
        return self.possible[start:stop]


def possible_uses(comparison: Comparison | None) -> list[PossibleUse]:
    """The lines that a comparison cannot explain, those first that the server itself takes for uses. Pure."""
    if comparison is None:
        return []
    files = sorted(comparison.missing, key=lambda file: not file.is_left_out_use)  # stable
    return [PossibleUse(Path(file.path), line, file.why) for file in files for line in file.lines]


def use_page(uses: Uses, workplace: Workplace, texts: Texts) -> ToolResult:
    """One page of uses. Blocks."""
    possible = uses.possible_in_span
    members = [_proven_members(workplace, place, uses.detail) for place in uses.proven]
    members += [_possible_members(workplace, use, texts) for use in possible]
    fitting = _fitting(jsonrpc.dumps(each).decode() for each in members)
    count = min(fitting, len(uses.proven))
    state = worst([uses.freshness])
    notes = [listing.UNSURE] if state is not None and state.state != "fresh" else []
    more: dict[str, Any] = {}
    if uses.possible:
        more = {"possible": members[count:fitting], "possibleTotal": len(uses.possible)}
    structured = {
        **uses.about,
        "total": uses.total,
        "count": count,
        "capped": False,
        "nextOffset": _following(uses, fitting),
        uses.member: members[:count],
        **more,
        "freshness": [uses.freshness.structured()],
        "unavailable": asking.unavailable_members(uses.unavailable),
        **({"note": " ".join(notes)} if notes else {}),
    }
    return ToolResult(well_formed("\n".join(_text_lines(uses, workplace, texts, notes))), structured)


def _text_lines(uses: Uses, workplace: Workplace, texts: Texts, notes: Sequence[str]) -> Iterator[str]:
    proven, possible = uses.proven, uses.possible_in_span
    costs = [*(_proven_words(workplace, place, uses.detail) for place in proven)]
    costs += [_possible_words(use, texts, uses.detail) for use in possible]
    fitting = _fitting(costs)
    following, count = _following(uses, fitting), min(fitting, len(proven))
    yield uses.title
    yield from uses.head
    yield f"count: {count}/{uses.total}" if count != uses.total else f"count: {uses.total}"
    if uses.possible:
        lines = _count_text(len(uses.possible), "more line")
        files = _count_text(len({use.path for use in uses.possible}), "file")
        yield f"possible: {lines} in {files}, listed after the uses"
    if following is not None:
        yield f"nextOffset: {following}"
    yield from asking.freshness_lines([uses.freshness], uses.unavailable)
    yield from (f"note: {note}" for note in notes)
    yield from proven_lines(workplace, proven[:count], uses.detail)
    if possible[: fitting - count]:
        yield "---"
        yield _POSSIBLE
        yield from _possible_lines(workplace, possible[: fitting - count], texts, uses.detail)


def _following(uses: Uses, shown_lines: int) -> int | None:
    end = uses.span.start + shown_lines
    return end if end < uses.total + len(uses.possible) else None


def _fitting(entries: Iterable[str]) -> int:
    """How many of these fit into an answer; at least one."""
    tokens: float = 0
    count = 0
    for count, words in enumerate(entries, 1):
        tokens += text_tokens(words) + _BETWEEN
        if tokens > MAX_TOKENS and count > 1:
            return count - 1
    return count


def _proven_members(workplace: Workplace, place: Place, detail: str) -> dict[str, Any]:
    """As in `structuredContent`, with as much of the text around a use as is wanted."""
    if detail == "context":
        return place.structured(workplace)
    members = place.structured(workplace, around=0)
    if detail == "places":
        members = {name: value for name, value in members.items() if not name.startswith("preview")}
    return members


def _possible_members(workplace: Workplace, use: PossibleUse, texts: Texts) -> dict[str, Any]:
    return {
        "workspacePath": workplace.shown_path(use.path),
        "line": use.line,
        "preview": _line_of(use, texts),
        "why": use.why,
    }


def _proven_words(workplace: Workplace, place: Place, detail: str) -> str:
    """About what a use costs in the text; a path stands there once for several."""
    if detail == "places":
        return f"{place.span.start.line}:{place.span.start.column}"
    return (
        "\n".join(place.preview()) + place.text(workplace)
        if detail == "context"
        else _cut(place.first_line())
    )


def _possible_words(use: PossibleUse, texts: Texts, detail: str) -> str:
    return str(use.line) if detail == "places" else f"{use.line}: {_cut(_line_of(use, texts).strip())}"


def proven_lines(workplace: Workplace, places: Sequence[Place], detail: str) -> Iterator[str]:
    """The uses as text: by file, a line of numbers for each file, or the line of each use. Blocks."""
    if detail == "context":
        for place in places:
            yield from ("---", place.text(workplace), *place.preview())
        return
    for path, in_file in groupby(places, lambda place: place.path):
        if detail == "places":
            numbers = [f"{place.span.start.line}:{place.span.start.column}" for place in in_file]
            yield f"{workplace.shown_path(path)} {', '.join(numbers)}"
            continue
        yield "---"
        yield workplace.shown_path(path)
        for line, in_line in groupby(in_file, lambda place: place.span.start.line):
            uses = list(in_line)
            count = f" ({len(uses)} uses)" if len(uses) > 1 else ""
            yield f"{line}{count}: {_cut(uses[0].first_line())}"


def _possible_lines(
    workplace: Workplace, uses: Sequence[PossibleUse], texts: Texts, detail: str
) -> Iterator[str]:
    for (path, why), in_file in groupby(uses, lambda use: (use.path, use.why)):
        if detail == "places":
            yield f"{workplace.shown_path(path)} {', '.join(str(use.line) for use in in_file)} ({why})"
            continue
        yield "---"
        yield f"{workplace.shown_path(path)} ({why})"
        yield from (f"{use.line}: {_cut(_line_of(use, texts).strip())}" for use in in_file)


def _line_of(use: PossibleUse, texts: Texts) -> str:
    lines = texts.lines(use.path)
    return cut(lines[use.line - 1]) if lines and use.line <= len(lines) else ""


def _cut(words: str) -> str:
    return words if len(words) <= MAX_WIDTH else words[:MAX_WIDTH] + "…"


def _count_text(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
