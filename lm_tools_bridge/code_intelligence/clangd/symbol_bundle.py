"""The tool `lm_clangd_symbolBundle`: everything about one symbol in one call."""

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
)
from lm_tools_bridge.code_intelligence.clangd.client import ClangdCall
from lm_tools_bridge.code_intelligence.clangd.hierarchies import Calls, call_entries, find_bundled_calls
from lm_tools_bridge.code_intelligence.clangd.references import implementations, references
from lm_tools_bridge.code_intelligence.clangd.symbol_info import symbol_info
from lm_tools_bridge.code_intelligence.clangd.symbol_search import Declaration, find_declarations
from lm_tools_bridge.code_intelligence.tools.symbols.places import Place, place_of
from lm_tools_bridge.code_intelligence.wire import document_uris

MAX_TOP: Final = 5
"""References and implementations in the sections of the text, which has all of them below as entries."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """The symbol that the bundle is about, and the others that it could have been.

    `arguments` address it by file and position, as the other tools take it.
    """

    label: str
    place: Place
    arguments: Mapping[str, Any]
    candidates: Sequence[Declaration]
    total: int


async def symbol_bundle(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """The symbol of a query or at a position: what it is, its uses, implementations and calls."""
    choice = await _choose(call, arguments)
    at_symbol = {**arguments, **choice.arguments}
    info = await symbol_info(call, at_symbol)
    uses = await references(call, {**at_symbol, "limit": arguments.get("referencesLimit", 120)})
    overrides = await implementations(call, {**at_symbol, "limit": arguments.get("implementationsLimit", 80)})
    calls = await find_bundled_calls(call, await call.target(at_symbol), arguments)
    return _bundle(call, choice, info, (uses, overrides), calls)


def _bundle(
    call: ClangdCall, choice: _Choice, info: Answer, lists: tuple[Answer, Answer], calls: Calls
) -> Answer:
    """One answer of all of them."""
    uses, overrides = lists
    label = choice.label or str(info.structured["symbolName"] or "?")
    counts = [answer.counts for answer in lists if answer.counts is not None] + [calls.counts]
    return Answer(
        "symbolBundle",
        Counts(sum(each.total for each in counts), sum(each.number_shown for each in counts)),
        {
            "target": {"label": label, "location": location(choice.place, call.workplace)},
            "candidates": [
                {"label": candidate.label, "location": location(candidate.place, call.workplace)}
                for candidate in choice.candidates
            ],
            "symbolInfo": info.members(),
            "references": uses.members(),
            "implementations": overrides.members(),
            "callHierarchy": {"counts": calls.counts.structured(), **calls.structured(call)},
        },
        [
            Section("TARGET", [label, place_text(choice.place, call.workplace)]),
            Section(
                "CANDIDATES",
                [
                    f"{candidate.label} {place_text(candidate.place, call.workplace)}"
                    for candidate in choice.candidates
                ],
            ),
            Section(
                "SYMBOL_INFO", [line for part in info.sections for line in (f"{part.title}:", *part.lines)]
            ),
            Section("REFERENCES_TOP", _top(uses)),
            Section("IMPLEMENTATIONS_TOP", _top(overrides)),
            Section("CALLS_INCOMING", [each.name for each in calls.incoming]),
            Section("CALLS_OUTGOING", [each.name for each in calls.outgoing]),
        ],
        [
            *(Entry(entry.place, f"[ref] {entry.summary}") for entry in uses.entries),
            *(Entry(entry.place, f"[impl] {entry.summary}") for entry in overrides.entries),
            *call_entries(call, calls.incoming, "[in] "),
            *call_entries(call, calls.outgoing, "[out] "),
        ],
        {"candidates": choice.total},
    )


def _top(answer: Answer) -> list[str]:
    return [f"{entry.place} {entry.summary}" for entry in answer.entries[:MAX_TOP]]


async def _choose(call: ClangdCall, arguments: Mapping[str, Any]) -> _Choice:
    if "query" not in arguments:
        if "filePath" not in arguments or "position" not in arguments:
            raise ClangdFailure("INVALID_INPUT", "give `query`, or `filePath` and `position`")
        return _Choice("", await _place_at(call, arguments), {}, (), 1)
    declarations = await find_declarations(call, arguments)
    index = arguments.get("candidateIndex", 1)
    if index > len(declarations):
        raise ClangdFailure(
            "INVALID_INPUT", f"/candidateIndex: {index}, but {len(declarations)} symbols match the query"
        )
    declaration = declarations[index - 1]
    start = declaration.place.span.start
    position = {"line": start.line, "character": start.column}
    return _Choice(
        declaration.label,
        declaration.place,
        {"filePath": str(declaration.place.path), "position": position},
        declarations[: arguments.get("candidateLimit", 20)],
        len(declarations),
    )


async def _place_at(call: ClangdCall, arguments: Mapping[str, Any]) -> Place:
    target = await call.target(arguments)
    uri, position = document_uris.to_uri(target.path), target.params["position"]
    where = {"start": position, "end": position}
    place = await call.workplace.run(
        [target.path], lambda: place_of(uri, where, call.texts, call.server.encoding)
    )
    if place is None:
        raise ClangdFailure("INVALID_INPUT", f"cannot read {target.path}")
    return place
