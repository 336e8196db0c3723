"""The tool `lm_clangd_callHierarchy`: who calls a function, and whom it calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from lm_tools_bridge.code_intelligence.clangd.client import ClangdCall, Target
from lm_tools_bridge.code_intelligence.clangd.places import Place
from lm_tools_bridge.code_intelligence.clangd.results import Answer
from lm_tools_bridge.code_intelligence.clangd.summary import Counts, Entry, Section
from lm_tools_bridge.code_intelligence.tools.asking import list_of
from lm_tools_bridge.code_intelligence.tools.texts import WITHHELD
from lm_tools_bridge.code_intelligence.wire import document_uris

Item = Mapping[str, Any]
Direction = Literal["incoming", "outgoing"]
_OTHER_END: Final[Mapping[Direction, str]] = {"incoming": "from", "outgoing": "to"}
MAX_CALLS: Final = 2_000
"""Calls of one answer."""


@dataclass(frozen=True, slots=True)
class Call:
    """One function that calls another; `place` is the one that the hierarchy led to."""

    place: Place
    summary: str

    def structured(self) -> dict[str, Any]:
        """As in `structuredContent`."""
        return {"location": self.place.structured(), "summary": self.summary}


@dataclass(frozen=True, slots=True)
class Calls:
    """A function and its calls."""

    root: tuple[str, Place] | None
    incoming: Sequence[Call]
    outgoing: Sequence[Call]
    truncated: bool

    def structured(self) -> dict[str, Any]:
        """As in `structuredContent`."""
        root = None if self.root is None else {"name": self.root[0], "location": self.root[1].structured()}
        return {
            "root": root,
            "incoming": [one.structured() for one in self.incoming],
            "outgoing": [one.structured() for one in self.outgoing],
        }

    @property
    def counts(self) -> Counts:
        """Of both directions. What the limits cut off was never counted: it makes the total one larger."""
        shown = len(self.incoming) + len(self.outgoing)
        return Counts(shown + self.truncated, shown)


async def call_hierarchy(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """The calls to and from the function at a position."""
    target = await call.target(arguments)
    calls = await find_calls(
        call,
        target,
        arguments.get("direction", "both"),
        arguments.get("maxDepth", 2),
        arguments.get("maxBreadth", 20),
    )
    root = [] if calls.root is None else [f"{calls.root[0]}", calls.root[1].text]
    sections = [
        Section("ROOT", root),
        Section("INCOMING", [one.summary for one in calls.incoming]),
        Section("OUTGOING", [one.summary for one in calls.outgoing]),
    ]
    entries = [Entry(one.place.text, one.summary) for one in (*calls.incoming, *calls.outgoing)]
    return Answer("callHierarchy", calls.counts, calls.structured(), sections, entries)


async def find_calls(call: ClangdCall, target: Target, direction: str, depth: int, breadth: int) -> Calls:
    """The calls of the function at a position.

    Args:
        call: clangd.
        target: the position.
        direction: `incoming`, `outgoing` or `both`.
        depth: how many steps to follow.
        breadth: how many calls of one function to follow.
    """
    items = list_of(await call.ask("textDocument/prepareCallHierarchy", target.params))
    root = items[0] if items else None
    place = None if root is None else await place_of(call, root)
    if root is None or place is None:
        return Calls(None, (), (), truncated=False)
    search = _Search(call, depth, breadth)
    incoming = await search.follow(root, "incoming") if direction != "outgoing" else []
    outgoing = await search.follow(root, "outgoing") if direction != "incoming" else []
    return Calls((await name_of(call, root), place), incoming, outgoing, search.truncated)


async def place_of(call: ClangdCall, item: Item) -> Place | None:
    """Where the name of a hierarchy's item is."""
    path = document_uris.to_path(item.get("uri"), Path)
    return None if path is None else await call.places.at(path, item.get("selectionRange"))


async def name_of(call: ClangdCall, item: Item) -> str:
    """The name of a hierarchy's item, which is a part of its file, with what it lies in if clangd says so."""
    name, path = str(item.get("name", "?")), document_uris.to_path(item.get("uri"), Path)
    return name if path is not None and await call.places.may_say(name, [path]) else WITHHELD


def key_of(item: Item) -> tuple[str, str, str]:
    """Tells items apart."""
    return (str(item.get("uri")), str(item.get("selectionRange")), str(item.get("name")))


class _Search:
    def __init__(self, call: ClangdCall, depth: int, breadth: int) -> None:
        self._call = call
        self._depth = depth
        self._breadth = breadth
        self.truncated = False

    async def follow(self, root: Item, direction: Direction) -> list[Call]:
        found: list[Call] = []
        seen, level = {key_of(root)}, [root]
        for step in range(self._depth):
            following: list[Item] = []
            for item in level:
                for other in await self._neighbours(item, direction):
                    made = await self._call_between(item, other, direction)
                    if made is not None and len(found) < MAX_CALLS:
                        found.append(made)
                    if key_of(other) not in seen:
                        seen.add(key_of(other))
                        following.append(other)
            level = following
            if level and step == self._depth - 1:
                self.truncated = self.truncated or await self._goes_on(level, direction)
        return found

    async def _neighbours(self, item: Item, direction: Direction) -> Sequence[Item]:
        calls = list_of(await self._call.ask(f"callHierarchy/{direction}Calls", {"item": item}))
        others = [one[_OTHER_END[direction]] for one in calls if _OTHER_END[direction] in one]
        items = [other for other in others if isinstance(other, Mapping)]
        self.truncated = self.truncated or len(items) > self._breadth
        return items[: self._breadth]

    async def _goes_on(self, level: Sequence[Item], direction: Direction) -> bool:
        """Whether the last functions have calls of their own, which the depth leaves out."""
        for item in level[: self._breadth]:
            if list_of(await self._call.ask(f"callHierarchy/{direction}Calls", {"item": item})):
                return True
        return False

    async def _call_between(self, item: Item, other: Item, direction: Direction) -> Call | None:
        place = await place_of(self._call, other)
        pair = (other, item) if direction == "incoming" else (item, other)
        if place is None:
            return None
        return Call(place, " -> ".join([await name_of(self._call, one) for one in pair]))
