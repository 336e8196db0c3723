"""The tools `lm_callHierarchy` and `lm_typeHierarchy`: follow calls or base types over several steps."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import LanguageServer, PositionEncoding
from lm_tools_bridge.code_intelligence.tools import listing, references
from lm_tools_bridge.code_intelligence.tools.asking import Request, Waiting, list_of
from lm_tools_bridge.code_intelligence.tools.listing import Entry, Listing
from lm_tools_bridge.code_intelligence.tools.references import target_members
from lm_tools_bridge.code_intelligence.tools.symbols.places import Place, place_of
from lm_tools_bridge.code_intelligence.tools.symbols.symbols import kind_name
from lm_tools_bridge.code_intelligence.tools.symbols.target import Target
from lm_tools_bridge.code_intelligence.tools.texts import WITHHELD, Texts
from lm_tools_bridge.code_intelligence.tools.word_check.absence import find_known_target
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace, wait_s
from lm_tools_bridge.code_intelligence.wire.document_uris import to_path
from lm_tools_bridge.code_intelligence.wire.positions import span_from_server
from workspace_server.call_context import CallContext
from workspace_server.files.project_copies import ProjectCopies
from workspace_server.results import clean_text
from workspace_server.tool import ToolError, ToolResult

DEFAULT_LIMIT: Final = 100
"""With five lines each; as many as a model reads before it asks for the next page."""
MAX_REQUESTS: Final = 400
"""Requests of one call in one direction: at a second for each they end within the time of a call."""
MAX_STEPS: Final = 2000
"""Steps of one call: more entries than a model reads, and still a small answer."""
MAX_DEPTH: Final = 5
"""Steps of one call: their number grows with each by the usual fan of calls."""
MAX_NAME: Final = 200
"""Characters of a name: it may repeat a whole template."""
Item = Mapping[str, Any]
"""A `CallHierarchyItem` or a `TypeHierarchyItem`."""


@dataclass(frozen=True, slots=True)
class Link:
    """How items lead to others: the request, and the member of its results (empty if they are items)."""

    direction: str
    method: str
    member: str = ""


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a tool asks: the first request, and the links that it follows."""

    title: str
    prepare: str
    links: Sequence[Link]


INCOMING: Final = Link("incoming", "callHierarchy/incomingCalls", "from")
OUTGOING: Final = Link("outgoing", "callHierarchy/outgoingCalls", "to")
SUPERTYPES: Final = Link("supertypes", "typeHierarchy/supertypes")
SUBTYPES: Final = Link("subtypes", "typeHierarchy/subtypes")
PREPARE_CALLS: Final = "textDocument/prepareCallHierarchy"
PREPARE_TYPES: Final = "textDocument/prepareTypeHierarchy"
_KINDS: Final[Mapping[str, _Kind]] = {
    "lm_callHierarchy": _Kind("Call hierarchy summary", PREPARE_CALLS, (INCOMING, OUTGOING)),
    "lm_typeHierarchy": _Kind("Type hierarchy summary", PREPARE_TYPES, (SUPERTYPES, SUBTYPES)),
}


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a walk goes.

    Attributes:
        depth: steps from the first items.
        breadth: how many neighbours of one item to follow; None for all.
        once: whether a step to an item that was reached before is left out.
        max_requests, max_steps: where a walk ends, however much is left.
    """

    depth: int
    breadth: int | None = None
    once: bool = False
    max_requests: int = MAX_REQUESTS
    max_steps: int = MAX_STEPS


@dataclass(frozen=True, slots=True)
class Step:
    """An item that was reached: over how many steps, from which, and where in whose code."""

    direction: str
    depth: int
    item: Item
    origin: Item
    ranges: Sequence[Any] = ()


@dataclass(slots=True)
class Walk:
    """Where a walk in one direction led.

    Attributes:
        steps: in their order, those of fewer steps first.
        edge: the items that were reached last, whose neighbours were not asked for.
        crowded: items that have more neighbours than were followed.
        reached: the identities of all items.
        capped: whether a limit ended the walk.
    """

    edge: list[Item]
    reached: set[str]
    steps: list[Step] = field(default_factory=list)
    crowded: list[Item] = field(default_factory=list)
    capped: bool = False


async def call(
    name: str, workplace: Workplace, arguments: Mapping[str, Any], context: CallContext
) -> ToolResult:
    """Follow the calls or types.

    Raises:
        InvalidArguments: the symbol is not named, or not uniquely.
        ToolError: there is no such symbol, it has no hierarchy, or no server can do this.
    """
    kind = _KINDS[name]
    waiting, texts = Waiting(wait_s(arguments), context), await workplace.texts()
    target = await find_known_target(workplace, arguments, kind.prepare, waiting, texts)
    direction, reach = (
        arguments.get("direction", "both"),
        Reach(min(max(1, int(arguments.get("depth", 1))), MAX_DEPTH)),
    )
    links = [link for link in kind.links if direction in (link.direction, "both")]

    async def work(server: LanguageServer) -> list[Walk] | None:
        roots = list_of(await server.request(kind.prepare, target.params))
        return [await follow(server.request, link, roots, reach) for link in links] if roots else []

    part = await references.ask(workplace, target, work, waiting)
    if part.value is not None and not part.value:
        raise ToolError("there is nothing at this place that has such a hierarchy; name a function or type")
    walks = part.value or ()
    steps = [step for walk in walks for step in walk.steps]
    capped = len(steps) > MAX_STEPS or any(walk.capped for walk in walks)
    entries = await asyncio.to_thread(_entries, workplace, steps[:MAX_STEPS], target, texts)
    about, head = target_members(target, workplace)
    reached = Listing(
        kind.title, "entries", entries, [part.freshness], target.unavailable, about, head, capped
    )
    return listing.result(reached, arguments, DEFAULT_LIMIT)


async def follow(request: Request, link: Link, roots: Sequence[Item], reach: Reach) -> Walk:
    """Walk from items to others, breadth first; the neighbours of each item are asked for once."""
    walk = Walk(list(roots), {_identity(item) for item in roots})
    requests = 0
    for depth in range(1, reach.depth + 1):
        level, walk.edge = walk.edge, []
        for item in level:
            requests += 1
            if requests > reach.max_requests or len(walk.steps) >= reach.max_steps:
                walk.capped = True
                return walk
            _take_steps(walk, reach, await _steps_from(request, link, item, depth))
    return walk


def _take_steps(walk: Walk, reach: Reach, steps: Sequence[Step]) -> None:
    """Add the steps from one item, as far as the walk takes them."""
    if reach.once:
        steps = [step for step in steps if _identity(step.item) not in walk.reached]
    if reach.breadth is not None and len(steps) > reach.breadth:
        walk.crowded.append(steps[0].origin)
        steps = steps[: reach.breadth]
    walk.steps += steps
    for step in steps:
        if _identity(step.item) not in walk.reached:
            walk.reached.add(_identity(step.item))
            walk.edge.append(step.item)


async def goes_on(request: Request, link: Link, walk: Walk, reach: Reach) -> bool:
    """Whether the depth alone ended a walk: an item at its edge leads to others."""
    for item in walk.edge:
        steps = await _steps_from(request, link, item, reach.depth + 1)
        if any(not reach.once or _identity(step.item) not in walk.reached for step in steps):
            return True
    return False


async def _steps_from(request: Request, link: Link, item: Item, depth: int) -> list[Step]:
    steps = []
    for raw in list_of(await request(link.method, {"item": item})):
        neighbour = raw.get(link.member) if link.member else raw
        if isinstance(neighbour, Mapping):
            ranges = raw.get("fromRanges") if link.member else None
            steps.append(
                Step(link.direction, depth, neighbour, item, ranges if isinstance(ranges, list) else ())
            )
    return steps


def _identity(item: Item) -> str:
    return f"{item.get('uri')} {item.get('selectionRange')} {item.get('name')}"


def item_name(item: Item, texts: Texts) -> str:
    """The name of an item, which is a part of its file; withheld if it may repeat another one. Blocks."""
    name, path = clean_text(str(item.get("name", ""))), to_path(item.get("uri"), Path)
    return name if path is not None and texts.may_say(name, [path]) else WITHHELD


def item_place(item: Item, texts: Texts, encoding: PositionEncoding) -> Place | None:
    """Where the name of an item stands; None if it has no place. Blocks."""
    return place_of(item.get("uri"), item.get("selectionRange", item.get("range")), texts, encoding)


def _entries(workplace: Workplace, steps: Sequence[Step], target: Target, texts: Texts) -> list[Entry]:
    copies = workplace.copies()
    entries = (_entry(workplace, step, target, texts, copies) for step in steps)
    return [entry for entry in entries if entry is not None]


def _entry(
    workplace: Workplace, step: Step, target: Target, texts: Texts, copies: ProjectCopies
) -> Entry | None:
    encoding, item = target.server.encoding, step.item
    place = item_place(item, texts, encoding)
    if place is None or copies.around(place.path) is not None:
        return None
    own = place.lines if step.direction == "incoming" else None
    spans = [span for where in step.ranges if (span := span_from_server(where, own, encoding)) is not None]
    lines = sorted({span.start.line for span in spans})
    kind = kind_name(item.get("kind"))
    name, via = item_name(item, texts)[:MAX_NAME], item_name(step.origin, texts)[:MAX_NAME]
    structured = {
        "direction": step.direction,
        "depth": step.depth,
        "name": name,
        "kind": kind,
        "via": via,
        "signature": place.first_line(),
        "location": place.structured(workplace),
        **({"callLines": lines} if lines else {}),
    }
    arrow = f"{name} -> {via}" if step.direction in ("incoming", "subtypes") else f"{via} -> {name}"
    calls = f" (calls in lines {', '.join(map(str, lines))})" if lines else ""
    lines_of_text = (
        place.text(workplace),
        f"{step.direction} {step.depth}: {arrow} [{kind}]{calls}",
        *place.preview(),
    )
    return Entry(structured, lines_of_text)
