"""The tools that name places: `symbolReferences`, `symbolImplementations` and `switchSourceHeader`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_tools_bridge.code_intelligence.clangd.answers import (
    Answer,
    Counts,
    Entry,
    location,
    place_text,
    preview,
)
from lm_tools_bridge.code_intelligence.clangd.client import ClangdCall, Target
from lm_tools_bridge.code_intelligence.tools.references import ask_by_all_names, own_locations
from lm_tools_bridge.code_intelligence.tools.symbols.places import place_at
from lm_tools_bridge.code_intelligence.wire import document_uris


async def references(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """Where the symbol is used."""
    target = await call.target(arguments)
    context = {"includeDeclaration": arguments.get("includeDeclaration", False)}
    target = Target(target.path, {**target.params, "context": context})
    return await _places(call, target, "references", arguments.get("limit", 200))


async def implementations(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """Where the virtual function is overridden, or the class derived from."""
    target = await call.target(arguments)
    return await _places(call, target, "implementation", arguments.get("limit", 100))


async def _places(call: ClangdCall, target: Target, what: str, limit: int) -> Answer:
    workplace = call.workplace
    result = await ask_by_all_names(call.server, call.ask, target.path, f"textDocument/{what}", target.params)
    locations = await own_locations(workplace, result)
    locations.sort(key=lambda location: workplace.shown_path(location.path))
    page = locations[:limit]
    places = await workplace.run(
        [location.path for location in page],
        lambda: [place_at(location, call.texts, call.server.encoding) for location in page],
    )
    return Answer(
        "symbolReferences" if what == "references" else "symbolImplementations",
        Counts(len(locations), len(places)),
        {
            "entries": [
                {"location": location(place, workplace), "summary": preview(place) or ""} for place in places
            ]
        },
        entries=[
            Entry(place_text(place, workplace), preview(place) or "(cannot be read)") for place in places
        ],
    )


async def switch_source_header(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """The header of a source file, or the source file of a header."""
    target = await call.target(arguments, with_position=False)
    uri = await call.ask("textDocument/switchSourceHeader", target.params["textDocument"])
    paired = document_uris.to_path(uri, Path)
    is_paired = paired is not None
    words = "(not found)" if paired is None else call.workplace.shown_path(paired)
    return Answer(
        "switchSourceHeader",
        None,
        {
            "found": is_paired,
            "source": _names(call, target.path),
            "paired": None if paired is None else _names(call, paired),
        },
        entries=[Entry(f"{call.workplace.shown_path(target.path)}#1", f"paired file: {words}")],
        extras={"found": is_paired},
        text_counts=Counts(int(is_paired), int(is_paired)),
    )


def _names(call: ClangdCall, path: Path) -> dict[str, str | None]:
    absolute, in_workspace = call.workplace.names(path)
    return {"absolutePath": absolute, "workspacePath": in_workspace}
