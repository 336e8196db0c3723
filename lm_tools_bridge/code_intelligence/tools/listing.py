"""Writes results that list entries: a page of them, the total, and how far to trust the answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from lm_tools_bridge.code_intelligence.freshness import Freshness, worst
from lm_tools_bridge.code_intelligence.server import Unavailable
from lm_tools_bridge.code_intelligence.tools import asking
from workspace_server.results import well_formed
from workspace_server.tool import ToolResult

MOST: Final = 2000
"""Entries of one page, whatever a caller wants: each is a line or more."""
UNSURE = "This may not be all: see freshness."


class Entry(msgspec.Struct, frozen=True):
    """One entry: as in `structuredContent`, and its lines in the text."""

    structured: Mapping[str, Any]
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Listing:
    """What was found.

    Attributes:
        title: first line of the text.
        member: name of the list in `structuredContent`.
        entries: all of them, of which a page is shown.
        freshness, unavailable: how far the servers can be trusted, and those that do not run.
        about: more members, which the text shows as `head`.
        capped: whether there may be more than `entries`, because a limit was reached.
    """

    title: str
    member: str
    entries: Sequence[Entry]
    freshness: Sequence[Freshness]
    unavailable: Sequence[Unavailable] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    head: Sequence[str] = ()
    capped: bool = False


def page(arguments: Mapping[str, Any], limit: int) -> slice:
    """Which entries the arguments `limit` and `offset` ask for."""
    offset = max(0, int(arguments.get("offset", 0)))
    return slice(offset, offset + min(max(1, int(arguments.get("limit", limit))), MOST))


def result(content: Listing, arguments: Mapping[str, Any], limit: int) -> ToolResult:
    """The page of a listing that the arguments `limit` and `offset` ask for."""
    span = page(arguments, limit)
    total, entries = len(content.entries), content.entries[span]
    end = span.start + len(entries)
    following = end if end < total else None
    state = worst(content.freshness)
    notes = [UNSURE] if state is not None and state.state != "fresh" else []
    structured = {
        **content.about,
        "total": total,
        "count": len(entries),
        "capped": content.capped,
        "nextOffset": following,
        content.member: [each.structured for each in entries],
        "freshness": [each.structured() for each in content.freshness],
        "unavailable": asking.unavailable_members(content.unavailable),
        **({"note": " ".join(notes)} if notes else {}),
    }
    counted = f"{len(entries)}/{total}" if len(entries) != total else str(total)
    lines = [
        content.title,
        *content.head,
        f"count: {counted}{' (capped)' if content.capped else ''}",
        *([f"nextOffset: {following}"] if following is not None else []),
        *asking.freshness_lines(content.freshness, content.unavailable),
        *(f"note: {note}" for note in notes),
    ]
    lines += [line for each in entries for line in ("---", *each.lines)]
    return ToolResult(well_formed("\n".join(lines)), structured)
