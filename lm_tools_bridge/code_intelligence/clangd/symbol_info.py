"""The tool `lm_clangd_symbolInfo`: what the symbol at a position is, and where it is defined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.code_intelligence.clangd.answers import (
    Answer,
    ClangdFailure,
    Counts,
    Entry,
    Section,
    location,
    place_text,
    preview,
)
from lm_tools_bridge.code_intelligence.clangd.client import ClangdCall, Target
from lm_tools_bridge.code_intelligence.clangd.symbol_names import (
    category,
    hover_text,
    is_generated,
    name_in,
    signature_in,
)
from lm_tools_bridge.code_intelligence.server import RequestTimedOut, ServerGone
from lm_tools_bridge.code_intelligence.tools.asking import list_of
from lm_tools_bridge.code_intelligence.tools.symbol_info import declared_at
from lm_tools_bridge.code_intelligence.tools.symbols.declarations import role_of
from lm_tools_bridge.code_intelligence.tools.symbols.places import Place
from lm_tools_bridge.code_intelligence.tools.texts import WITHHELD
from workspace_server.workspace import absolute_text

_LABELS: Final = ("definition", "typeDefinition", "declaration")
"""In the order of entries; each is the last part of a request's name."""
_OWN: Final = ("definition", "declaration")
"""What the result of `textDocument/symbolInfo` has of a symbol in the file itself, or in what it includes."""
LabelledPlace = tuple[str, Place]


@dataclass(frozen=True, slots=True)
class Snippet:
    """Some lines of source. `source` is `definition`, `declaration` or `none`."""

    lines: Sequence[str] = ()
    source: str = "none"
    filtered: bool = False


async def symbol_info(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """The symbol at a position."""
    target = await call.target(arguments)
    hover = hover_text(await call.ask("textDocument/hover", target.params))
    details = await _details(call, target)
    kind, name = name_in(hover) or ("unknown", str(details.get("name", "")))
    places = await _places(call, target, details, is_value=category(kind) == "valueLike")
    if not await call.may_say(hover, [target.path, *(place.path for _, place in places)]):
        name = hover = WITHHELD
    snippet = Snippet()
    if arguments.get("includeSnippet", True):
        snippet = await _snippet(call, places, arguments.get("snippetMaxLines", 20))
    return _answer(call, (kind, name, hover), places, snippet)


async def _details(call: ClangdCall, target: Target) -> Mapping[str, Any]:
    """What clangd says of the symbol beside its hover text: its name, and where this file has it."""
    try:
        symbols = list_of(await call.ask("textDocument/symbolInfo", target.params))
    except ClangdFailure:
        return {}
    return symbols[0] if symbols else {}


async def _places(
    call: ClangdCall, target: Target, details: Mapping[str, Any], *, is_value: bool
) -> list[LabelledPlace]:
    """Definitions, type definitions (of values only) and declarations, each once.

    A place is labelled by what stands there: at each of the two, clangd names the other one as both.
    """
    labelled: dict[tuple[Any, ...], LabelledPlace] = {}
    for label in _LABELS:
        if label != "typeDefinition" or is_value:
            for place in await call.places(await call.ask(f"textDocument/{label}", target.params)):
                labelled.setdefault(place.order, (label, place))
    if any(label in _OWN for label, _ in labelled.values()):
        for label in _OWN:
            for place in await call.places(details.get(f"{label}Range")):
                labelled.setdefault(place.order, (label, place))
    places = [(_role(label, place, is_value=is_value), place) for label, place in labelled.values()]
    return sorted(places, key=lambda pair: _LABELS.index(pair[0]))


def _role(label: str, place: Place, *, is_value: bool) -> str:
    if label == "typeDefinition":
        return label
    return role_of(place.path, place.lines, place.span.start, is_value=is_value) or label


async def _snippet(call: ClangdCall, places: Sequence[LabelledPlace], limit: int) -> Snippet:
    """The source of the first place that has some, definitions first."""
    filtered = False
    for label, place in places:
        if label == "typeDefinition":
            continue
        if is_generated(absolute_text(place.path)):
            filtered = True
        elif place.lines is not None:
            first, last = await _whole_lines(call, place)
            return Snippet(place.lines[first - 1 : min(last, first - 1 + limit)], label, filtered)
    return Snippet(filtered=filtered)


async def _whole_lines(call: ClangdCall, place: Place) -> tuple[int, int]:
    """The first and last line of the symbol that is named at a place, its body included."""
    try:
        symbol = await declared_at(call.server, place, call.texts)
    except (RequestTimedOut, ServerGone):
        symbol = None
    whole = place.span if symbol is None else symbol.whole
    return whole.start.line, whole.end.line


def _answer(
    call: ClangdCall, symbol: tuple[str, str, str], places: Sequence[LabelledPlace], snippet: Snippet
) -> Answer:
    """The answer about a symbol of this kind, name and hover text."""
    kind, name, hover = symbol
    group, signature = category(kind), signature_in(hover)
    texts = {"hover": hover, "signature": signature, "snippet": "\n".join(snippet.lines)}
    sections = [Section("HOVER", hover.splitlines())]
    if group in ("callable", "valueLike"):
        sections.append(Section("SIGNATURE", [signature] if signature else []))
    sections.append(Section("SNIPPET", list(snippet.lines)))
    return Answer(
        "symbolInfo",
        Counts(len(places), len(places)),
        {
            "entries": [
                {"label": label, "location": location(place, call.workplace)} for label, place in places
            ],
            "symbolCategory": group,
            "symbolKind": kind,
            "symbolName": name,
            **{member: text for member, text in texts.items() if text},
            "snippetSource": snippet.source,
            "snippetFilteredGenerated": snippet.filtered,
        },
        sections,
        [
            Entry(place_text(place, call.workplace), f"{label}: {preview(place) or name}")
            for label, place in places
        ],
        {"symbolCategory": group},
    )
