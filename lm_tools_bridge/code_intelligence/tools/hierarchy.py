"""The tools `lm_callHierarchy` and `lm_typeHierarchy`: follow calls or base types over several steps."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import LanguageServer
from lm_tools_bridge.code_intelligence.tools import asking, listing
from lm_tools_bridge.code_intelligence.tools.asking import Waiting, list_of
from lm_tools_bridge.code_intelligence.tools.listing import Entry, Listing
from lm_tools_bridge.code_intelligence.tools.references import target_members
from lm_tools_bridge.code_intelligence.tools.symbols.places import place_of
from lm_tools_bridge.code_intelligence.tools.symbols.symbols import kind_name
from lm_tools_bridge.code_intelligence.tools.symbols.target import Target, find_target
from lm_tools_bridge.code_intelligence.tools.texts import WITHHELD, Texts
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace, wait_s
from lm_tools_bridge.code_intelligence.wire.document_uris import to_path
from lm_tools_bridge.code_intelligence.wire.positions import span_from_server
from workspace_server.call_context import CallContext
from workspace_server.files.project_copies import ProjectCopies
from workspace_server.results import clean_text
from workspace_server.tool import ToolError, ToolResult

DEFAULT_LIMIT: Final = 100
MAX_STEPS: Final = 400
"""Requests that one call may send in one direction."""
MAX_ENTRIES: Final = 2000


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a tool asks: the first request, and by direction the next ones with the member to follow."""

    title: str
    prepare: str
    follow: Mapping[str, tuple[str, str]]


_KINDS: Final[Mapping[str, _Kind]] = {
    "lm_callHierarchy": _Kind(
        "Call hierarchy summary",
        "textDocument/prepareCallHierarchy",
        {
            "incoming": ("callHierarchy/incomingCalls", "from"),
            "outgoing": ("callHierarchy/outgoingCalls", "to"),
        },
    ),
    "lm_typeHierarchy": _Kind(
        "Type hierarchy summary",
        "textDocument/prepareTypeHierarchy",
        {
            "supertypes": ("typeHierarchy/supertypes", ""),
            "subtypes": ("typeHierarchy/subtypes", ""),
        },
    ),
}


@dataclass(frozen=True, slots=True)
class _Step:
    """An item that was reached: over how many steps, from which, and where in whose code."""

    direction: str
    depth: int
    item: Mapping[str, Any]
    origin: Mapping[str, Any]
    ranges: Sequence[Any] = ()


@dataclass(slots=True)
class _Walk:
    """What a walk has found; `capped` if a limit ended it."""

    steps: list[_Step] = field(default_factory=list)
    capped: bool = False
    found: bool = False


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
    target = await find_target(workplace, arguments, kind.prepare, waiting, texts)
    wanted, depth = arguments.get("direction", "both"), int(arguments.get("depth", 1))
    directions = [one for one in kind.follow if wanted in (one, "both")]

    async def work(server: LanguageServer) -> _Walk:
        roots = list_of(await server.request(kind.prepare, target.params))
        walk = _Walk(found=bool(roots))
        for direction in directions:
            await _follow(server, kind.follow[direction], direction, roots, depth, walk)
        return walk

    part = await asking.ask(target.server, work, waiting)
    walk = part.value or _Walk(found=part.value is None)
    if not walk.found:
        raise ToolError("there is nothing at this place that has such a hierarchy; name a function or type")
    entries = await asyncio.to_thread(_entries, workplace, walk, target, texts)
    about, head = target_members(target, workplace)
    found = Listing(
        kind.title, "entries", entries, [part.freshness], target.unavailable, about, head, walk.capped
    )
    return listing.result(found, arguments, DEFAULT_LIMIT)


async def _follow(  # noqa: PLR0917  the facts about one walk
    server: LanguageServer,
    how: tuple[str, str],
    direction: str,
    roots: Sequence[Mapping[str, Any]],
    depth: int,
    walk: _Walk,
) -> None:
    """Breadth first, each item once."""
    method, member = how
    seen, level, asked = {_identity(one) for one in roots}, list(roots), 0
    for number in range(1, depth + 1):
        following = []
        for item in level:
            asked += 1
            if asked > MAX_STEPS or len(walk.steps) >= MAX_ENTRIES:
                walk.capped = True
                return
            for raw in list_of(await server.request(method, {"item": item})):
                reached = raw.get(member) if member else raw
                if not isinstance(reached, Mapping):
                    continue
                ranges = raw.get("fromRanges")
                listed = ranges if member and isinstance(ranges, list) else ()
                walk.steps.append(_Step(direction, number, reached, item, listed))
                if _identity(reached) not in seen:
                    seen.add(_identity(reached))
                    following.append(reached)
        level = following


def _identity(item: Mapping[str, Any]) -> str:
    return f"{item.get('uri')} {item.get('selectionRange')} {item.get('name')}"


def _name(item: Mapping[str, Any]) -> str:
    return clean_text(str(item.get("name", "")))[:200]


def _shown_name(item: Mapping[str, Any], texts: Texts) -> str:
    """The name, which is a part of its file."""
    path = to_path(item.get("uri"), Path)
    return _name(item) if path is not None and texts.may_say(_name(item), [path]) else WITHHELD


def _entries(workplace: Workplace, walk: _Walk, target: Target, texts: Texts) -> list[Entry]:
    copies = workplace.copies()
    made = (_entry(workplace, step, target, texts, copies) for step in walk.steps[:MAX_ENTRIES])
    return [entry for entry in made if entry is not None]


def _entry(
    workplace: Workplace, step: _Step, target: Target, texts: Texts, copies: ProjectCopies
) -> Entry | None:
    encoding, item = target.server.encoding, step.item
    place = place_of(item.get("uri"), item.get("selectionRange", item.get("range")), texts, encoding)
    if place is None or copies.around(place.path) is not None:
        return None
    own = place.lines if step.direction == "incoming" else None
    spans = [span for one in step.ranges if (span := span_from_server(one, own, encoding)) is not None]
    lines = sorted({span.start.line for span in spans})
    kind, name, via = kind_name(item.get("kind")), _shown_name(item, texts), _shown_name(step.origin, texts)
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
    shown = (
        place.text(workplace),
        f"{step.direction} {step.depth}: {arrow} [{kind}]{calls}",
        *place.preview(),
    )
    return Entry(structured, shown)
