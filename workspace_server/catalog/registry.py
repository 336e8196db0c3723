"""All that the sources of the workspace offer in one table, whatever they are doing at the moment.

Merges the lists of the sources, keeps the last good list of one that fails, never waits long for any. What
of the table can be called is `view.py`; names are made in `naming.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from protocol.issues import Issue
from protocol.param_headers import Mirrored, annotated
from workspace_server import log, naming
from workspace_server.catalog import offerings
from workspace_server.catalog.listing import Listing
from workspace_server.catalog.offerings import Offerings
from workspace_server.source import Source
from workspace_server.tool import Tool

if TYPE_CHECKING:
    from workspace_server.schemas.validation import Validator

CLOSE_S: Final = 10.0


@dataclass(frozen=True)
class OfferedTool:
    """One tool as it is offered: its name here, its definition under that name, and who runs it.

    `defaults` are values for arguments that a caller leaves out; the definition shows them. What holds
    for all calls of it is worked out once.
    """

    name: str
    tool: Tool
    source: Source
    definition: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def named_tool(self) -> Tool:
        """The tool under its offered name, for texts that mention it."""
        return self._named

    @cached_property
    def _named(self) -> Tool:
        return Tool(self.name, self.definition, self.tool.visibility, self.tool.keywords)

    @cached_property
    def mirrored(self) -> tuple[Mirrored, ...]:
        """The arguments that headers repeat."""
        return tuple(annotated(self.schema))

    @cached_property
    def arguments(self) -> Validator:
        """What its arguments are held to. Raises `ValueError` where its schema cannot be served."""
        return _validator(self.schema)

    @cached_property
    def results(self) -> Validator | None:
        """What its structured results are held to; None where it promises nothing.

        Raises:
            ValueError: its schema cannot be served.
        """
        schema = self.definition.get("outputSchema")
        return _validator(schema) if isinstance(schema, Mapping) else None

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments, as it is shown."""
        shown: Mapping[str, Any] = self.definition["inputSchema"]
        return shown


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole table at one moment, in list order.

    Attributes:
        tools: every tool of every source, whether it can be called or not.
        offerings: what the sources offer beside tools.
        sources: the sources themselves.
        issues: what is wrong with the sources, the names and single tools.
        filtered: offered names of tools that their source's configuration leaves out.
        withheld: names of tools that wait for trust, and the path to trust.
    """

    tools: tuple[OfferedTool, ...] = ()
    sources: tuple[Source, ...] = ()
    issues: tuple[Issue, ...] = ()
    filtered: Mapping[str, Source] = field(default_factory=dict)
    withheld: Mapping[str, str] = field(default_factory=dict)
    by_name: Mapping[str, OfferedTool] = field(default_factory=dict)
    offerings: Offerings = field(default_factory=Offerings)

    def get(self, name: str) -> OfferedTool | None:
        """The tool of exactly this name."""
        return self.by_name.get(name)


class Registry:
    """The sources of the workspace, merged. Owns them: `close` closes every one."""

    def __init__(self, sources: Sequence[Source] = ()) -> None:
        self._listings: list[Listing] = []
        self._refused: list[Issue] = []
        self._snapshot = Snapshot()
        self._is_current = False
        self._listener: Callable[[], None] | None = None
        self._late: set[asyncio.Task[Sequence[Tool]]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self.internal_prefix = naming.INTERNAL_PREFIX
        self.replace(sources)

    def sources(self, *, closely: bool = False) -> list[dict[str, Any]]:
        """The sources, without asking any; `closely` with what only their user should see."""
        return [
            {**listing.as_dict(), **(listing.source.status() if closely else {})}
            for listing in self._listings
        ]

    def watch(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a source says that it may have changed, or answers late."""
        self._listener = listener

    def replace(self, sources: Sequence[Source]) -> None:
        """Offer these sources, in this order, from now on; those that are no longer among them are closed."""
        refused = {source.id: issue for source in sources if (issue := naming.namespace_issue(source))}
        known = {id(listing.source): listing for listing in self._listings}
        wanted = [source for source in sources if source.id not in refused]
        self._refused = list(refused.values())
        self._listings = [
            known.pop(id(source)) if id(source) in known else self._enter(source) for source in wanted
        ]
        self._is_current = self._is_current and not known
        for listing in known.values():
            task = asyncio.get_running_loop().create_task(_close(listing), name=f"close-{listing.source.id}")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def refresh(self, identity: str | None = None) -> bool:
        """Ask one source, or every one, to look again at once; whether there was one to ask."""
        asked = [one.source for one in self._listings if identity in (None, one.source.id)]
        await asyncio.gather(*(source.refresh() for source in asked))
        return bool(asked)

    @property
    def is_unchanged(self) -> bool:
        """Whether the last snapshot still shows the tools there are."""
        if not self._is_current:
            return False
        for listing in self._listings:  # noqa: SIM110  asked with every call, and a generator costs as much again
            if not listing.is_unchanged:
                return False
        return True

    async def snapshot(self) -> Snapshot:
        """The table now. Sources that do not answer in time appear with their last list."""
        listings = self._listings
        await self._ask(listings)
        changed = [listing.look() for listing in listings]
        if any(changed) or not self._is_current:
            self._snapshot, self._is_current = self._merge(), True
        return self._snapshot

    async def close(self) -> None:
        """Close all sources, each in bounded time. Idempotent."""
        self._listener = None
        await asyncio.gather(*(_close(listing) for listing in self._listings), *self._closing)

    def _enter(self, source: Source) -> Listing:
        source.watch(self._touched)
        self._is_current = False
        return Listing(source)

    def _touched(self) -> None:
        if self._listener is not None:
            self._listener()

    async def _ask(self, listings: Sequence[Listing]) -> None:
        loop = asyncio.get_running_loop()
        tickets = [(listing, listing.begin(loop.time())) for listing in listings]
        await asyncio.sleep(0)  # a source that answers from memory is done after one turn
        while True:
            waits = [listing.waiting(ticket, loop.time()) for listing, ticket in tickets]
            pending = {task: seconds for task, seconds in waits if task is not None}
            patient = {task: seconds for task, seconds in pending.items() if seconds > 0}
            if not patient:
                self._watch_late(pending)
                return
            await asyncio.wait(patient, timeout=min(patient.values()))

    def _watch_late(self, tasks: Iterable[asyncio.Task[Sequence[Tool]]]) -> None:
        """Look again when a listing ends that nobody waits for any more, so that `list_changed` follows."""
        for task in tasks:
            if task not in self._late:
                self._late.add(task)
                task.add_done_callback(self._arrived)

    def _arrived(self, task: asyncio.Task[Sequence[Tool]]) -> None:
        self._late.discard(task)
        if not task.cancelled():
            self._touched()

    def _merge(self) -> Snapshot:
        listed = [(listing.source, listing.tools) for listing in self._listings]
        named, issues = naming.assign(listed, self.internal_prefix)
        tools = tuple(_offer(entry) for entry in named)
        filtered: dict[str, Source] = {}
        withheld: dict[str, str] = {}
        for listing in self._listings:
            issues += listing.issues()
            prefix = naming.prefix_of(listing.source)
            filtered |= {prefix + name: listing.source for name in listing.filtered}
            withheld |= listing.source.withheld()
        if not self._listings:
            issues.append(Issue("warning", "source", "NO_SOURCES", "No source of tools is configured"))
        by_name = {tool.name: tool for tool in tools}
        sources = tuple(listing.source for listing in self._listings)
        extras = offerings.merge(sources)
        issues += extras.issues
        return Snapshot(tools, sources, tuple(self._refused + issues), filtered, withheld, by_name, extras)


async def _close(listing: Listing) -> None:
    try:
        await asyncio.wait_for(listing.close(), CLOSE_S)
    except Exception as fault:  # noqa: BLE001  the others must be closed all the same
        log.fault("source_close_failed", fault, source=listing.source.id)


def _validator(schema: Mapping[str, Any]) -> Validator:
    # loaded with the first call: compiling schemas takes a library that health answers need not wait for
    from workspace_server.schemas.validation import validator_for  # noqa: PLC0415

    return validator_for(schema)


def _offer(entry: naming.Named[Tool]) -> OfferedTool:
    definition = entry.item.definition
    if definition.get("name") != entry.name:
        definition = {**definition, "name": entry.name}
    return OfferedTool(entry.name, entry.item, entry.source, definition)
