"""The tool `lm_clangd_symbolInfo`: what the symbol at a position is, and where it is defined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.clangd.client import ClangdCall, Target
from lm_tools_bridge.code_intelligence.clangd.failures import ClangdFailure
from lm_tools_bridge.code_intelligence.clangd.places import Place
from lm_tools_bridge.code_intelligence.clangd.results import Answer
from lm_tools_bridge.code_intelligence.clangd.summary import Counts, Entry, Section
from lm_tools_bridge.code_intelligence.clangd.symbol_names import (
    Category,
    category,
    hover_text,
    is_generated,
    named_in,
    signature_in,
)
from lm_tools_bridge.code_intelligence.server import ServerGone
from lm_tools_bridge.code_intelligence.tools.asking import list_of
from lm_tools_bridge.code_intelligence.tools.symbols.declarations import role_of
from lm_tools_bridge.code_intelligence.tools.texts import WITHHELD
from lm_tools_bridge.code_intelligence.wire import document_uris
from lm_tools_bridge.code_intelligence.wire.positions import Position, Span, span_from_server
from workspace_server.workspace import absolute_text

_REQUESTS: Final = {
    "definition": "textDocument/definition",
    "typeDefinition": "textDocument/typeDefinition",
    "declaration": "textDocument/declaration",
}

_OWN: Final = ("definition", "declaration")
"""What the result of `textDocument/symbolInfo` has of a symbol in the file itself, or in what it includes."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """Some lines of source. `source` is `definition`, `declaration` or `none`."""

    lines: Sequence[str]
    source: str
    filtered: bool


async def symbol_info(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """The symbol at a position."""
    target = await call.target(arguments)
    hover = hover_text(await call.ask("textDocument/hover", target.params))
    details = await _details(call, target)
    kind, name = named_in(hover) or ("unknown", str(details.get("name", "")))
    group = category(kind)
    places = await _told_apart(call, await _places(call, target, group), details, group)
    if not await call.places.may_say(hover, [target.path, *(place.path for _, place in places)]):
        name = hover = WITHHELD
    snippet = Snippet((), "none", filtered=False)
    if arguments.get("includeSnippet", True):
        snippet = await _snippet(call, places, arguments.get("snippetMaxLines", 20))
    return _answer(kind, name, hover, places, snippet)


async def _places(call: ClangdCall, target: Target, group: Category) -> list[tuple[str, Place]]:
    """Definition, type definition (of values only) and declaration; places that are equal count once."""
    found: list[tuple[str, Place]] = []
    for label, method in _REQUESTS.items():
        if label == "typeDefinition" and group != "valueLike":
            continue
        for place in await call.places.of(await call.ask(method, target.params)):
            if place not in [known for _, known in found]:
                found.append((label, place))
    return found


async def _details(call: ClangdCall, target: Target) -> Mapping[str, Any]:
    """What clangd says of the symbol beside its hover text: its name, and where this file has it."""
    try:
        found = list_of(await call.ask("textDocument/symbolInfo", target.params))
    except ClangdFailure:
        return {}
    return found[0] if found else {}


async def _told_apart(
    call: ClangdCall, places: Sequence[tuple[str, Place]], details: Mapping[str, Any], group: Category
) -> list[tuple[str, Place]]:
    """Definitions first, by what stands there: at each of the two, clangd names the other one as both."""
    said = {place: label for label, place in places if label != "typeDefinition"}
    for label in _OWN if said else ():
        said |= {
            place: said.get(place, label) for place in await call.places.of(details.get(f"{label}Range"))
        }
    labelled = [one for one in places if one[0] == "typeDefinition"]
    for place, label in said.items():
        lines = await call.places.lines(place.path)
        role = role_of(place.path, lines, place.span.start, is_value=group == "valueLike")
        labelled.append((role or label, place))
    order = list(_REQUESTS)
    return sorted(labelled, key=lambda one: order.index(one[0]))


async def _snippet(call: ClangdCall, places: Sequence[tuple[str, Place]], most: int) -> Snippet:
    filtered = False
    for label in ("definition", "declaration"):
        for place in [one for name, one in places if name == label]:
            if is_generated(absolute_text(place.path)):
                filtered = True
                continue
            lines = await call.places.lines(place.path)
            if lines is not None:
                whole = await _whole(call, place, lines)
                first = whole.start.line - 1
                return Snippet(lines[first : min(whole.end.line, first + most)], label, filtered)
    return Snippet((), "none", filtered)


async def _whole(call: ClangdCall, place: Place, lines: Sequence[str]) -> Span:
    """The span of the innermost symbol that is named at a place, its body included."""
    try:
        await call.server.open(place.path)
        document = {"textDocument": {"uri": document_uris.to_uri(place.path)}}
        symbols = list_of(await call.ask("textDocument/documentSymbol", document))
    except (ClangdFailure, OSError, ServerGone):
        return place.span
    found, waiting = place.span, list(symbols)
    while waiting:
        symbol = waiting.pop()
        span = span_from_server(symbol.get("range"), lines, call.server.encoding)
        name = span_from_server(symbol.get("selectionRange"), lines, call.server.encoding)
        if span is None or name is None:
            continue
        if name.start == place.span.start:
            return span
        if _holds(span, place.span.start):
            waiting.extend(list_of(symbol.get("children")))
    return found


def _holds(span: Span, position: Position) -> bool:
    return span.start <= position <= span.end


def _answer(
    kind: str, name: str, hover: str, places: Sequence[tuple[str, Place]], snippet: Snippet
) -> Answer:
    group, signature = category(kind), signature_in(hover)
    text = "\n".join(snippet.lines)
    known = {"hover": hover, "signature": signature, "snippet": text}
    sections = [Section("HOVER", hover.splitlines())]
    if group in ("callable", "valueLike"):
        sections.append(Section("SIGNATURE", [signature] if signature else []))
    sections.append(Section("SNIPPET", list(snippet.lines)))
    return Answer(
        "symbolInfo",
        Counts(len(places), len(places)),
        {
            "entries": [{"label": label, "location": place.structured()} for label, place in places],
            "symbolCategory": group,
            "symbolKind": kind,
            "symbolName": name,
            **{member: value for member, value in known.items() if value},
            "snippetSource": snippet.source,
            "snippetFilteredGenerated": snippet.filtered,
        },
        sections,
        [Entry(place.text, f"{label}: {place.preview or name}") for label, place in places],
        {"symbolCategory": group},
    )


def target_of(path: Path, start: Mapping[str, Any]) -> Target:
    """The target at a position that clangd itself gave."""
    return Target(path, {"textDocument": {"uri": document_uris.to_uri(path)}, "position": start})
