"""The tool `lm_clangd_typeHierarchy`: what a class derives from, and what derives from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.clangd.call_hierarchy import Item, key_of, name_of, place_of
from lm_tools_bridge.code_intelligence.clangd.client import ClangdCall
from lm_tools_bridge.code_intelligence.clangd.places import Place
from lm_tools_bridge.code_intelligence.clangd.results import Answer
from lm_tools_bridge.code_intelligence.clangd.summary import Counts, Section
from lm_tools_bridge.code_intelligence.tools.asking import list_of
from lm_tools_bridge.code_intelligence.wire import document_uris

MAX_TYPES: Final = 1_000
"""Types of one answer."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far to follow the hierarchy; 0 for not at all."""

    super_depth: int
    sub_depth: int
    sub_breadth: int


@dataclass(slots=True)
class _Hierarchy:
    """What was found so far; names are keys, in the order in which they were found."""

    supers: list[tuple[str, Place]] = field(default_factory=list)
    derived: dict[str, list[tuple[str, Place]]] = field(default_factory=dict)
    whole: dict[str, Place] = field(default_factory=dict)
    supers_cut: bool = False
    depth_cut: bool = False
    breadth_cut: dict[str, bool] = field(default_factory=dict)


async def type_hierarchy(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """The bases and the derived classes of the class at a position."""
    limits = Limits(
        arguments.get("maxSuperDepth", 3), arguments.get("maxSubDepth", 2), arguments.get("maxSubBreadth", 10)
    )
    target = await call.target(arguments)
    items = list_of(await call.ask("textDocument/prepareTypeHierarchy", target.params))
    root = items[0] if items else None
    place = None if root is None else await place_of(call, root)
    found = _Hierarchy()
    if root is not None and place is not None:
        await _note(call, root, found)
        await _climb(call, root, limits, found)
        await _descend(call, root, limits, found)
    return _answer(
        None if root is None or place is None else (await name_of(call, root), place), found, limits
    )


async def _climb(call: ClangdCall, root: Item, limits: Limits, found: _Hierarchy) -> None:
    seen, level = {key_of(root)}, [root]
    for step in range(limits.super_depth + 1):
        parents: list[Item] = []
        for item in level:
            for parent in list_of(await call.ask("typeHierarchy/supertypes", {"item": item})):
                if key_of(parent) not in seen:
                    seen.add(key_of(parent))
                    parents.append(parent)
        if step == limits.super_depth or len(found.supers) + len(parents) > MAX_TYPES:
            found.supers_cut = bool(parents)
            return
        for parent in parents:
            if (place := await _note(call, parent, found)) is not None:
                found.supers.append((await name_of(call, parent), place))
        level = parents


async def _descend(call: ClangdCall, root: Item, limits: Limits, found: _Hierarchy) -> None:
    seen, level = {key_of(root)}, [root]
    for step in range(limits.sub_depth + 1):
        children: list[Item] = []
        for item in level:
            new = [one for one in await _subtypes(call, item) if key_of(one) not in seen]
            if step == limits.sub_depth or len(found.whole) + len(new) > MAX_TYPES:
                found.depth_cut = found.depth_cut or bool(new)
                continue
            name = await name_of(call, item)
            if len(new) > limits.sub_breadth:
                found.breadth_cut[name] = True
            for child in new[: limits.sub_breadth]:
                seen.add(key_of(child))
                children.append(child)
                if (place := await _note(call, child, found)) is not None:
                    found.derived.setdefault(name, []).append((await name_of(call, child), place))
        level = children


async def _subtypes(call: ClangdCall, item: Item) -> Sequence[Item]:
    return list_of(await call.ask("typeHierarchy/subtypes", {"item": item}))


async def _note(call: ClangdCall, item: Item, found: _Hierarchy) -> Place | None:
    """Remember where a type is; returns the place of its name."""
    path = document_uris.to_path(item.get("uri"), Path)
    whole = None if path is None else await call.places.at(path, item.get("range"))
    if whole is not None:
        found.whole.setdefault(await name_of(call, item), whole)
    return await place_of(call, item)


def _answer(root: tuple[str, Place] | None, found: _Hierarchy, limits: Limits) -> Answer:
    derived = [f"{parent} <- {name}" for parent, children in found.derived.items() for name, _ in children]
    sources = [
        line
        for name, place in found.whole.items()
        for line in (f"type {name}", f"preview: {place.preview or ''}", f"path: {place.text}")
    ]
    shown = len(found.supers) + len(derived)
    cut = found.supers_cut or found.depth_cut or bool(found.breadth_cut)
    return Answer(
        "typeHierarchy",
        None,
        _structured(root, found, limits),
        [
            Section("ROOT", [] if root is None else [root[0], root[1].text]),
            Section("SUPERS", [f"{name} {place.text}" for name, place in found.supers]),
            Section("DERIVED", derived),
            Section("SOURCE", sources),
        ],
        extras={
            "root": "none" if root is None else root[0],
            "superCount": len(found.supers),
            "derivedParents": len(found.derived),
            "limits": f"super:{limits.super_depth},sub:{limits.sub_depth},breadth:{limits.sub_breadth}",
        },
        text_counts=Counts(shown + cut, shown),
    )


def _structured(root: tuple[str, Place] | None, found: _Hierarchy, limits: Limits) -> Mapping[str, Any]:
    return {
        "ok": root is not None,
        "root": None if root is None else _named(*root),
        "supers": [_named(name, place) for name, place in found.supers],
        "derivedByParent": {
            parent: [_named(name, place) for name, place in children]
            for parent, children in found.derived.items()
        },
        "sourceByClass": {name: _source(place) for name, place in found.whole.items()},
        "limits": {
            "maxSuperDepth": limits.super_depth,
            "maxSubDepth": limits.sub_depth,
            "maxSubBreadth": limits.sub_breadth,
        },
        "truncated": {
            "supers": found.supers_cut,
            "derivedDepth": found.depth_cut,
            "derivedBreadthByClass": found.breadth_cut,
        },
    }


def _named(name: str, place: Place) -> dict[str, Any]:
    return {"name": name, "location": place.structured()}


def _source(place: Place) -> dict[str, Any]:
    location = place.structured()
    kept = ("absolutePath", "workspacePath", "startLine", "endLine")
    return {**{name: location[name] for name in kept}, "preview": place.preview or ""}
