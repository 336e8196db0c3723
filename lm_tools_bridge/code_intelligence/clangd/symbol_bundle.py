"""The tool `lm_clangd_symbolBundle`: everything about one symbol in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_tools_bridge.code_intelligence.clangd.call_hierarchy import Call, Calls, find_calls
from lm_tools_bridge.code_intelligence.clangd.client import ClangdCall
from lm_tools_bridge.code_intelligence.clangd.failures import ClangdFailure
from lm_tools_bridge.code_intelligence.clangd.references import implementations, references
from lm_tools_bridge.code_intelligence.clangd.results import Answer
from lm_tools_bridge.code_intelligence.clangd.summary import Counts, Entry, Section
from lm_tools_bridge.code_intelligence.clangd.symbol_info import symbol_info
from lm_tools_bridge.code_intelligence.clangd.symbol_search import FoundSymbol, find_symbols


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The symbol that the bundle is about, and the others that it could have been.

    `arguments` address it by file and position, as the other tools take it.
    """

    label: str
    location: Mapping[str, Any]
    place: str
    arguments: Mapping[str, Any]
    candidates: Sequence[FoundSymbol]
    total: int


async def symbol_bundle(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """The symbol of a query or at a position: what it is, its uses, implementations and calls."""
    chosen = await _choose(call, arguments)
    asked = {**arguments, **chosen.arguments}
    info = await symbol_info(call, asked)
    uses = await references(call, {**asked, "limit": arguments.get("referencesLimit", 120)})
    made = await implementations(call, {**asked, "limit": arguments.get("implementationsLimit", 80)})
    calls = await find_calls(
        call,
        await call.target(asked),
        arguments.get("callDirection", "both"),
        arguments.get("callMaxDepth", 2),
        arguments.get("callMaxBreadth", 20),
    )
    return _bundle(chosen, info, uses, made, calls)


def _bundle(chosen: _Chosen, info: Answer, uses: Answer, made: Answer, calls: Calls) -> Answer:
    """One answer of all of them."""
    label = chosen.label or str(info.structured["symbolName"] or "?")
    entries = [
        *(_tagged("ref", one) for one in uses.entries),
        *(_tagged("impl", one) for one in made.entries),
        *(_tagged("in", _entry(one)) for one in calls.incoming),
        *(_tagged("out", _entry(one)) for one in calls.outgoing),
    ]
    counted = [one.counts for one in (uses, made) if one.counts is not None]
    counts = Counts(
        sum(one.total for one in counted) + calls.counts.total,
        sum(one.shown for one in counted) + calls.counts.shown,
    )
    return Answer(
        "symbolBundle",
        counts,
        {
            "target": {"label": label, "location": chosen.location},
            "candidates": [
                {"label": one.label, "location": one.place.structured()} for one in chosen.candidates
            ],
            "symbolInfo": _part(info),
            "references": _part(uses),
            "implementations": _part(made),
            "callHierarchy": {"counts": calls.counts.structured(), **calls.structured()},
        },
        [
            Section("TARGET", [label, chosen.place]),
            Section("CANDIDATES", [f"{one.label} {one.place.text}" for one in chosen.candidates]),
            Section("SYMBOL_INFO", [line for one in info.sections for line in (f"{one.title}:", *one.lines)]),
            Section("REFERENCES_TOP", _top(uses.entries)),
            Section("IMPLEMENTATIONS_TOP", _top(made.entries)),
            Section("CALLS_INCOMING", [one.summary for one in calls.incoming]),
            Section("CALLS_OUTGOING", [one.summary for one in calls.outgoing]),
        ],
        entries,
        {"candidates": chosen.total},
    )


async def _choose(call: ClangdCall, arguments: Mapping[str, Any]) -> _Chosen:
    if "query" not in arguments:
        if "filePath" not in arguments or "position" not in arguments:
            raise ClangdFailure("INVALID_INPUT", "give `query`, or `filePath` and `position`")
        return await _at_position(call, arguments)
    found = await find_symbols(call, arguments)
    index = arguments.get("candidateIndex", 1)
    if index > len(found):
        raise ClangdFailure(
            "INVALID_INPUT", f"/candidateIndex: {index}, but {len(found)} symbols match the query"
        )
    one = found[index - 1]
    start = one.place.span.start
    position = {"line": start.line, "character": start.column}
    return _Chosen(
        one.label,
        one.place.structured(),
        one.place.text,
        {"filePath": str(one.place.path), "position": position},
        found[: arguments.get("candidateLimit", 20)],
        len(found),
    )


async def _at_position(call: ClangdCall, arguments: Mapping[str, Any]) -> _Chosen:
    target = await call.target(arguments)
    at = {"start": target.params["position"], "end": target.params["position"]}
    place = await call.places.at(target.path, at)
    if place is None:
        raise ClangdFailure("INVALID_INPUT", f"cannot read {target.path}")
    return _Chosen("", place.structured(), place.text, {}, (), 1)


def _part(answer: Answer) -> dict[str, Any]:
    counts = {} if answer.counts is None else {"counts": answer.counts.structured()}
    return {**counts, **answer.structured}


def _tagged(tag: str, entry: Entry) -> Entry:
    return Entry(entry.place, f"[{tag}] {entry.summary}")


def _entry(one: Call) -> Entry:
    return Entry(one.place.text, one.summary)


def _top(entries: Sequence[Entry], most: int = 5) -> list[str]:
    return [f"{one.place} {one.summary}" for one in entries[:most]]
