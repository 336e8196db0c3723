"""The tool `lm_clangd_symbolInfo`: what the symbol at a position is, and where it is defined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from workspace_server.sources.language_servers.clangd.answers.failures import ClangdFailure
from workspace_server.sources.language_servers.clangd.answers.places import Place
from workspace_server.sources.language_servers.clangd.answers.results import Answer
from workspace_server.sources.language_servers.clangd.answers.summary import Counts, Entry, Section
from workspace_server.sources.language_servers.clangd.answers.symbol_names import (
    Category,
    category,
    hover_text,
    is_generated,
    named_in,
    signature_in,
)
from workspace_server.sources.language_servers.clangd.client import ClangdCall, Target
from workspace_server.sources.language_servers.server import ServerGone
from workspace_server.sources.language_servers.tools.asking import list_of
from workspace_server.sources.language_servers.wire import document_uris
from workspace_server.sources.language_servers.wire.positions import Position, Span, span_from_server
from workspace_server.workspace import absolute_text

_REQUESTS: Final = {
    "definition": "textDocument/definition",
    "typeDefinition": "textDocument/typeDefinition",
    "declaration": "textDocument/declaration",
}


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
    kind, name = named_in(hover) or ("unknown", await _name(call, target))
    group = category(kind)
    places = await _places(call, target, group)
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


async def _name(call: ClangdCall, target: Target) -> str:
    """The symbol's name where the hover text does not tell it; empty if there is no symbol."""
    try:
        found = list_of(await call.ask("textDocument/symbolInfo", target.params))
    except ClangdFailure:
        return ""
    return str(found[0].get("name", "")) if found else ""


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
