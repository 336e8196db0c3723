"""The tools `lm_clangd_symbolReferences` and `lm_clangd_symbolImplementations`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_tools_bridge.code_intelligence.clangd.client import ClangdCall
from lm_tools_bridge.code_intelligence.clangd.places import Place
from lm_tools_bridge.code_intelligence.clangd.results import Answer
from lm_tools_bridge.code_intelligence.clangd.summary import Counts, Entry


async def references(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """Where the symbol is used."""
    target = await call.target(arguments)
    context = {"includeDeclaration": arguments.get("includeDeclaration", False)}
    found = await call.ask("textDocument/references", {**target.params, "context": context})
    return _answer("symbolReferences", await call.places.of(found), arguments.get("limit", 200))


async def implementations(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """Where the virtual function is overridden, or the class derived from."""
    target = await call.target(arguments)
    found = await call.ask("textDocument/implementation", target.params)
    return _answer("symbolImplementations", await call.places.of(found), arguments.get("limit", 100))


def _answer(kind: str, places: list[Place], limit: int) -> Answer:
    ordered = sorted(
        dict.fromkeys(places), key=lambda place: (place.text.partition("#")[0], place.span.start)
    )
    shown = ordered[:limit]
    return Answer(
        kind,
        Counts(len(ordered), len(shown)),
        {"entries": [{"location": one.structured(), "summary": one.preview or ""} for one in shown]},
        entries=[Entry(one.text, one.preview or "(cannot be read)") for one in shown],
    )
