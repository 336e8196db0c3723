"""The tools `lm_clangd_callHierarchy` and `lm_clangd_typeHierarchy`, on the walks of the general tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.code_intelligence.clangd.answers import (
    Answer,
    Counts,
    Entry,
    Section,
    location,
    place_text,
    preview,
)
from lm_tools_bridge.code_intelligence.clangd.client import ClangdCall, Target
from lm_tools_bridge.code_intelligence.tools.asking import list_of
from lm_tools_bridge.code_intelligence.tools.hierarchy import (
    INCOMING,
    OUTGOING,
    PREPARE_CALLS,
    PREPARE_TYPES,
    SUBTYPES,
    SUPERTYPES,
    Item,
    Link,
    Reach,
    Step,
    Walk,
    follow,
    goes_on,
    item_name,
    item_place,
)
from lm_tools_bridge.code_intelligence.tools.symbols.places import Place, place_of
from workspace_server.files.project_copies import ProjectCopies

MAX_CALLS: Final = 2_000
"""Calls of one answer in one direction, and requests for them."""
MAX_TYPES: Final = 1_000
"""Types of one answer in one direction, and requests for them."""


@dataclass(frozen=True, slots=True)
class NamedPlace:
    """What the answers say of an item of a hierarchy: its name, or that of a call, and its place."""

    name: str
    place: Place

    def structured(self, call: ClangdCall, member: str = "name") -> dict[str, Any]:
        """As in `structuredContent`."""
        return {member: self.name, "location": location(self.place, call.workplace)}


@dataclass(frozen=True, slots=True)
class Calls:
    """A function and its calls. Each call is named `caller -> callee`, and stands where the other end is."""

    root: NamedPlace | None
    incoming: Sequence[NamedPlace] = ()
    outgoing: Sequence[NamedPlace] = ()
    is_cut: bool = False

    def structured(self, call: ClangdCall) -> dict[str, Any]:
        """As in `structuredContent`."""
        return {
            "root": None if self.root is None else self.root.structured(call),
            "incoming": [each.structured(call, "summary") for each in self.incoming],
            "outgoing": [each.structured(call, "summary") for each in self.outgoing],
        }

    @property
    def counts(self) -> Counts:
        """Of both directions. What the limits cut off was never counted: it makes the total one larger."""
        number = len(self.incoming) + len(self.outgoing)
        return Counts(number + self.is_cut, number)


async def call_hierarchy(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """The calls to and from the function at a position."""
    reach = _call_reach(arguments.get("maxDepth", 2), arguments.get("maxBreadth", 20))
    calls = await find_calls(call, await call.target(arguments), arguments.get("direction", "both"), reach)
    sections = [
        _root_section(call, calls.root),
        Section("INCOMING", [each.name for each in calls.incoming]),
        Section("OUTGOING", [each.name for each in calls.outgoing]),
    ]
    entries = call_entries(call, calls.incoming) + call_entries(call, calls.outgoing)
    return Answer("callHierarchy", calls.counts, calls.structured(call), sections, entries)


def call_entries(call: ClangdCall, calls: Sequence[NamedPlace], tag: str = "") -> list[Entry]:
    """Calls as entries of a text."""
    return [Entry(place_text(each.place, call.workplace), f"{tag}{each.name}") for each in calls]


def _call_reach(depth: int, breadth: int) -> Reach:
    return Reach(depth, breadth, max_requests=MAX_CALLS, max_steps=MAX_CALLS)


async def find_bundled_calls(call: ClangdCall, target: Target, arguments: Mapping[str, Any]) -> Calls:
    """The calls that `symbolBundle` shows."""
    reach = _call_reach(arguments.get("callMaxDepth", 2), arguments.get("callMaxBreadth", 20))
    return await find_calls(call, target, arguments.get("callDirection", "both"), reach)


async def find_calls(call: ClangdCall, target: Target, direction: str, reach: Reach) -> Calls:
    """The calls of the function at a position, in one direction or `both`."""
    root = await _root(call, PREPARE_CALLS, target)
    if root is None:
        return Calls(None)
    walks = {link: await _walk(call, link, root, reach, direction) for link in (INCOMING, OUTGOING)}
    cut = [
        walk.capped or bool(walk.crowded) or await goes_on(call.ask, link, walk, reach)
        for link, walk in walks.items()
    ]

    def name_all() -> Calls:
        named_root = _named_place(call, root)
        if named_root is None:
            return Calls(None)
        incoming, outgoing = (_named_calls(call, walk.steps[:MAX_CALLS]) for walk in walks.values())
        return Calls(named_root, incoming, outgoing, any(cut))

    return await asyncio.to_thread(name_all)


async def _root(call: ClangdCall, prepare: str, target: Target) -> Item | None:
    return next(iter(list_of(await call.ask(prepare, target.params))), None)


async def _walk(call: ClangdCall, link: Link, root: Item, reach: Reach, direction: str) -> Walk:
    if direction not in (link.direction, "both"):
        return Walk([], set())
    return await follow(call.ask, link, [root], reach)


def _named_place(call: ClangdCall, item: Item) -> NamedPlace | None:
    place = item_place(item, call.texts, call.server.encoding)
    return None if place is None else NamedPlace(item_name(item, call.texts), place)


def _named_calls(call: ClangdCall, steps: Sequence[Step]) -> list[NamedPlace]:
    """The calls of some steps. Blocks."""
    calls, copies = [], call.workplace.copies()
    for step in steps:
        place = item_place(step.item, call.texts, call.server.encoding)
        if place is not None and copies.around(place.path) is None:
            ends = (step.item, step.origin) if step.direction == "incoming" else (step.origin, step.item)
            calls.append(NamedPlace(" -> ".join(item_name(item, call.texts) for item in ends), place))
    return calls


@dataclass(frozen=True, slots=True)
class _Types:
    """A class, what it derives from, and what derives from it by the name of the parent.

    Attributes:
        sources: where the whole of each type stands, by name.
        supers_cut, depth_cut, breadth_cut: what the limits left out.
    """

    root: NamedPlace | None
    supers: Sequence[NamedPlace]
    derived: Mapping[str, Sequence[NamedPlace]]
    sources: Mapping[str, Place]
    supers_cut: bool = False
    depth_cut: bool = False
    breadth_cut: Mapping[str, bool] | None = None


async def type_hierarchy(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """The bases and the derived classes of the class at a position."""
    limits = {
        "maxSuperDepth": arguments.get("maxSuperDepth", 3),
        "maxSubDepth": arguments.get("maxSubDepth", 2),
        "maxSubBreadth": arguments.get("maxSubBreadth", 10),
    }
    root = await _root(call, PREPARE_TYPES, await call.target(arguments))
    if root is None:
        return _type_answer(call, _Types(None, (), {}, {}), limits)
    above = Reach(limits["maxSuperDepth"], None, True, MAX_TYPES, MAX_TYPES)
    below = Reach(limits["maxSubDepth"], limits["maxSubBreadth"], True, MAX_TYPES, MAX_TYPES)
    supers = await follow(call.ask, SUPERTYPES, [root], above)
    subs = await follow(call.ask, SUBTYPES, [root], below)
    supers_cut = supers.capped or await goes_on(call.ask, SUPERTYPES, supers, above)
    depth_cut = subs.capped or await goes_on(call.ask, SUBTYPES, subs, below)
    types = await asyncio.to_thread(_types, call, root, supers, subs, (supers_cut, depth_cut))
    return _type_answer(call, types, limits)


def _types(call: ClangdCall, root: Item, supers: Walk, subs: Walk, cut: tuple[bool, bool]) -> _Types:
    """The types of two walks with their names and places. Blocks."""
    named_root = _named_place(call, root)
    if named_root is None:
        return _Types(None, (), {}, {})
    sources: dict[str, Place] = {}
    copies = call.workplace.copies()
    derived: dict[str, list[NamedPlace]] = {}
    _note_source(call, root, sources)
    bases = [base for step in supers.steps if (base := _type_of(call, step, copies, sources)) is not None]
    for step in subs.steps:
        if (child := _type_of(call, step, copies, sources)) is not None:
            derived.setdefault(item_name(step.origin, call.texts), []).append(child)
    crowded = {item_name(item, call.texts): True for item in subs.crowded}
    return _Types(named_root, bases, derived, sources, *cut, crowded)


def _type_of(
    call: ClangdCall, step: Step, copies: ProjectCopies, sources: dict[str, Place]
) -> NamedPlace | None:
    base_or_child = _named_place(call, step.item)
    if base_or_child is None or copies.around(base_or_child.place.path) is not None:
        return None
    _note_source(call, step.item, sources)
    return base_or_child


def _note_source(call: ClangdCall, item: Item, sources: dict[str, Place]) -> None:
    whole = place_of(item.get("uri"), item.get("range"), call.texts, call.server.encoding)
    if whole is not None:
        sources.setdefault(item_name(item, call.texts), whole)


def _root_section(call: ClangdCall, root: NamedPlace | None) -> Section:
    return Section("ROOT", [] if root is None else [root.name, place_text(root.place, call.workplace)])


def _type_answer(call: ClangdCall, types: _Types, limits: Mapping[str, int]) -> Answer:
    workplace, root, breadth_cut = call.workplace, types.root, types.breadth_cut or {}
    derived = [f"{parent} <- {child.name}" for parent, each in types.derived.items() for child in each]
    sources = [
        line
        for name, whole in types.sources.items()
        for line in (
            f"type {name}",
            f"preview: {preview(whole) or ''}",
            f"path: {place_text(whole, workplace)}",
        )
    ]
    number_shown = len(types.supers) + len(derived)
    is_cut = types.supers_cut or types.depth_cut or bool(breadth_cut)
    depths = zip(("super", "sub", "breadth"), limits.values(), strict=True)
    return Answer(
        "typeHierarchy",
        None,
        {
            "ok": root is not None,
            "root": None if root is None else root.structured(call),
            "supers": [base.structured(call) for base in types.supers],
            "derivedByParent": {
                parent: [child.structured(call) for child in each] for parent, each in types.derived.items()
            },
            "sourceByClass": {name: _source(call, whole) for name, whole in types.sources.items()},
            "limits": limits,
            "truncated": {
                "supers": types.supers_cut,
                "derivedDepth": types.depth_cut,
                "derivedBreadthByClass": breadth_cut,
            },
        },
        [
            _root_section(call, root),
            Section("SUPERS", [f"{base.name} {place_text(base.place, workplace)}" for base in types.supers]),
            Section("DERIVED", derived),
            Section("SOURCE", sources),
        ],
        extras={
            "root": "none" if root is None else root.name,
            "superCount": len(types.supers),
            "derivedParents": len(types.derived),
            "limits": ",".join(f"{name}:{number}" for name, number in depths),
        },
        text_counts=Counts(number_shown + is_cut, number_shown),
    )


def _source(call: ClangdCall, whole: Place) -> dict[str, Any]:
    members = location(whole, call.workplace)
    names = ("absolutePath", "workspacePath", "startLine", "endLine")
    return {**{name: members[name] for name in names}, "preview": preview(whole) or ""}
