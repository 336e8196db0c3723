"""All tools of the workspace in one table, whatever their sources are doing at the moment.

Merges the lists of the sources, keeps the last good list of one that fails, never waits long for any
(T-2, T-4, T-6). Which of the tools a request gets to see is `view.py`; names are made in `naming.py`.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from protocol.issues import Issue
from workspace_server import log, naming
from workspace_server.listing import Listing
from workspace_server.source import Source, Tool

COALESCE_S: Final = 0.25
"""Changes within this time are announced once (T-184)."""
CLOSE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Offered:
    """One tool as it is offered: its name here, its definition under that name, and who runs it."""

    name: str
    tool: Tool
    source: Source
    definition: Mapping[str, Any]

    def named_tool(self) -> Tool:
        """The tool under its offered name, for texts that mention it."""
        return Tool(self.name, self.definition, self.tool.visibility, self.tool.keywords)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole table at one moment: every callable tool in list order, and what is wrong with it."""

    tools: tuple[Offered, ...] = ()
    issues: tuple[Issue, ...] = ()
    by_name: Mapping[str, Offered] = field(default_factory=dict)

    def get(self, name: str) -> Offered | None:
        """The tool offered by exactly this name."""
        return self.by_name.get(name)

    def nearest(self, name: str) -> list[str]:
        """Up to five names that resemble this one, best first (T-175)."""
        folded = {known.lower(): known for known in self.by_name}
        found = difflib.get_close_matches(name.lower()[:128], folded, n=5, cutoff=0.5)
        return [folded[match] for match in found]


class Registry:
    """The sources of the workspace, merged. Owns them: `close` closes every one."""

    def __init__(self, sources: Sequence[Source]) -> None:
        refused = {source.id: issue for source in sources if (issue := naming.namespace_issue(source))}
        self._refused = list(refused.values())
        self._listings = [Listing(source) for source in sources if source.id not in refused]
        self._snapshot: Snapshot | None = None
        self._announced: list[Mapping[str, Any]] | None = None
        self._listeners: set[Callable[[], None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._refreshing: set[asyncio.Task[Snapshot]] = set()
        self._late: set[asyncio.Task[Sequence[Tool]]] = set()

    @property
    def last(self) -> Snapshot:
        """The table as it was last seen, without asking any source."""
        return self._snapshot or Snapshot()

    def sources(self) -> list[dict[str, Any]]:
        """The sources in health and status, without asking any (T-1)."""
        return [listing.as_dict() for listing in self._listings]

    async def snapshot(self) -> Snapshot:
        """The table now. Sources that do not answer in time appear with their last list."""
        await self._ask()
        changed = [listing.settle() for listing in self._listings]
        if self._snapshot is None or any(changed):
            self._snapshot = self._merge()
            self._compare(self._snapshot)
        return self._snapshot

    def touch(self) -> None:
        """A source says that its list may have changed: look, and announce it if so."""
        task = asyncio.get_running_loop().create_task(self.snapshot(), name="registry-refresh")
        self._refreshing.add(task)
        task.add_done_callback(self._refreshing.discard)

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after the list changed (T-184). Returns what ends it."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    async def close(self) -> None:
        """Stop looking, and close all sources, each in bounded time. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._refreshing:
            task.cancel()
        await asyncio.gather(*self._refreshing, return_exceptions=True)
        closing = (asyncio.wait_for(listing.close(), CLOSE_S) for listing in self._listings)
        outcomes = await asyncio.gather(*closing, return_exceptions=True)
        for listing, outcome in zip(self._listings, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                log.fault("source_close_failed", outcome, source=listing.source.id)

    async def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        for listing in self._listings:
            listing.begin(loop.time())
        await asyncio.sleep(0)  # a source that answers from memory is done after one turn
        while True:
            waits = [listing.waiting(loop.time()) for listing in self._listings]
            pending = {task: seconds for task, seconds in waits if task is not None}
            patient = {task: seconds for task, seconds in pending.items() if seconds > 0}
            if not patient:
                self._watch(pending)
                return
            await asyncio.wait(patient, timeout=min(patient.values()))

    def _watch(self, tasks: Iterable[asyncio.Task[Sequence[Tool]]]) -> None:
        """Look again when a listing ends that nobody waits for any more, so that `list_changed` follows."""
        for task in tasks:
            if task not in self._late:
                self._late.add(task)
                task.add_done_callback(self._arrived)

    def _arrived(self, task: asyncio.Task[Sequence[Tool]]) -> None:
        self._late.discard(task)
        if not task.cancelled():
            self.touch()

    def _merge(self) -> Snapshot:
        named, issues = naming.assign([(listing.source, listing.tools) for listing in self._listings])
        tools = tuple(_offer(entry) for entry in named)
        for listing in self._listings:
            issues += listing.issues()
        if not self._listings:
            issues.append(Issue("warning", "source", "NO_SOURCES", "No source of tools is configured"))
        return Snapshot(tools, tuple(self._refused + issues), {tool.name: tool for tool in tools})

    def _compare(self, snapshot: Snapshot) -> None:
        definitions = [tool.definition for tool in snapshot.tools]
        if self._announced is None:
            self._announced = definitions
        elif definitions != self._announced and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(COALESCE_S, self._announce)

    def _announce(self) -> None:
        self._timer = None
        definitions = [tool.definition for tool in self.last.tools]
        if definitions != self._announced:
            self._announced = definitions
            for listener in tuple(self._listeners):
                listener()


def _offer(entry: naming.Named) -> Offered:
    definition = entry.tool.definition
    if definition.get("name") != entry.name:
        definition = {**definition, "name": entry.name}
    return Offered(entry.name, entry.tool, entry.source, definition)
