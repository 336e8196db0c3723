"""Merges the tools of all sources into one table, whatever state the sources are in.

Keeps the last good list of a source that fails, and never waits long for any source. `view.py` decides what
can be called; `naming.py` makes the names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from lm_tools_bridge.protocol.issues import Issue
from lm_tools_bridge.protocol.param_headers import Mirrored, annotated
from workspace_server import log, naming
from workspace_server.catalog import offerings
from workspace_server.catalog.app_addresses import NO_ADDRESSES, AppAddresses, app_addresses
from workspace_server.catalog.listing import Listing, longest_wait_s
from workspace_server.catalog.offerings import Offerings
from workspace_server.source import Source
from workspace_server.tool import Tool

if TYPE_CHECKING:
    from workspace_server.schemas.validation import Validator

# Stdio servers get SIGTERM and after it SIGKILL within this time. A source that hangs even then is left
# behind: the stop of the whole process must not wait for it.
CLOSE_S: Final = 10.0
_ANY_OBJECT: Final[Mapping[str, Any]] = {"type": "object"}


@dataclass(frozen=True)
class OfferedTool:
    """One tool as it is offered: its offered name, its definition under that name, and its source.

    `defaults` are values for arguments that a caller leaves out; the definition shows them. Validators and
    other values that all calls share are computed once.
    """

    name: str
    tool: Tool
    source: Source
    definition: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def named_tool(self) -> Tool:
        """The tool under its offered name, for messages."""
        return self._named

    def with_defaults(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments, with defaults for those the caller left out; the same object if nothing is added."""
        if not self.defaults:
            return arguments
        missing = {key: value for key, value in self.defaults.items() if key not in arguments}
        return {**arguments, **missing} if missing else arguments

    @cached_property
    def _named(self) -> Tool:
        return Tool(self.name, self.definition, self.tool.visibility, self.tool.keywords)

    @cached_property
    def mirrored(self) -> tuple[Mirrored, ...]:
        """The arguments that HTTP headers mirror."""
        return tuple(annotated(self.schema))

    @cached_property
    def arguments(self) -> Validator:
        """The validator of the arguments. Raises `ValueError` if the schema cannot be used."""
        return _validator(self.schema if self.tool.checks_arguments else _ANY_OBJECT)

    @cached_property
    def results(self) -> Validator | None:
        """The validator of structured results; None without an output schema.

        Raises:
            ValueError: the schema cannot be used.
        """
        schema = self.definition.get("outputSchema")
        return _validator(schema) if isinstance(schema, Mapping) else None

    @property
    def repeats_itself(self) -> bool:
        """Whether the text of its results says all that their structured content says.

        The results of scripts are JSON that is in both.
        """
        return self.source.kind in naming.OWN_KINDS or self.source.kind == "script"

    @property
    def schema(self) -> Mapping[str, Any]:
        """The input schema, as clients see it."""
        schema: Mapping[str, Any] = self.definition["inputSchema"]
        return schema


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole table at one moment, in list order.

    Attributes:
        tools: every tool of every source, callable or not.
        offerings: prompts, resources and templates of the sources.
        sources: the sources themselves.
        issues: problems of sources, names and single tools.
        filtered: offered names of tools that their source's `include` or `exclude` leaves out.
        withheld: names of tools that wait for trust, with the path that has to be trusted.
        awaited: ids of the sources that are listing their tools for the first time.
        addresses: whose the `ui://` addresses are.
    """

    tools: tuple[OfferedTool, ...] = ()
    sources: tuple[Source, ...] = ()
    issues: tuple[Issue, ...] = ()
    filtered: Mapping[str, Source] = field(default_factory=dict)
    withheld: Mapping[str, str] = field(default_factory=dict)
    by_name: Mapping[str, OfferedTool] = field(default_factory=dict)
    awaited: frozenset[str] = frozenset()
    offerings: Offerings = field(default_factory=Offerings)
    addresses: AppAddresses = NO_ADDRESSES

    def source(self, identity: str) -> Source | None:
        """The source with this id."""
        return next((source for source in self.sources if source.id == identity), None)

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
        self._overdue: set[asyncio.Task[Sequence[Tool]]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._change = asyncio.Event()  # set by the next change; then replaced
        self.internal_prefix = naming.INTERNAL_PREFIX
        self.replace(sources)

    def sources(self, *, closely: bool = False) -> list[dict[str, Any]]:
        """The sources as JSON, without asking any; `closely` adds what only their user should see."""
        return [
            {**listing.as_dict(), **(listing.source.status() if closely else {})}
            for listing in self._listings
            if listing.source.is_shown
        ]

    def watch(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a source reports a change, or answers after its time limit."""
        self._listener = listener

    def replace(self, sources: Sequence[Source]) -> None:
        """Offer these sources, in this order, from now on. Sources that are no longer named are closed."""
        refused = {source.id: issue for source in sources if (issue := naming.namespace_issue(source))}
        listings = {id(listing.source): listing for listing in self._listings}
        accepted = [source for source in sources if source.id not in refused]
        self._refused = list(refused.values())
        accepted_ids = {id(source) for source in accepted}
        replaced = [listing for number, listing in listings.items() if number not in accepted_ids]
        for listing in replaced:
            task = asyncio.get_running_loop().create_task(_close(listing), name=_closing_name(listing.source))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        self._listings = [listings.get(id(source)) or self._enter(source) for source in accepted]
        self._is_current = self._is_current and not replaced

    async def refresh(self, identity: str | None = None) -> bool:
        """Refresh one source, or all of them; returns whether there was one."""
        sources = [listing.source for listing in self._listings if identity in (None, listing.source.id)]
        await asyncio.gather(*(source.refresh() for source in sources))
        return bool(sources)

    async def restart(self, identity: str | None = None) -> Mapping[str, str]:
        """Restart one source, or all that are shown; returns what was done to each, by id."""
        sources = [listing.source for listing in self._listings]
        restarting = [
            source for source in sources if identity == source.id or (identity is None and source.is_shown)
        ]
        done = await asyncio.gather(*(source.restart() for source in restarting))
        return dict(zip((source.id for source in restarting), done, strict=True))

    async def check_files(self) -> None:
        """Let all sources check the files that only requests about resources and skills depend on."""
        await asyncio.gather(*(listing.source.check_files() for listing in self._listings))

    @property
    def is_unchanged(self) -> bool:
        """Whether the last snapshot is still correct for tools."""
        if not self._is_current:
            return False
        now = asyncio.get_running_loop().time()
        for listing in self._listings:  # runs for every call; a generator doubles its cost
            source = listing.source
            if now < source.known_until:
                if source.revision != listing.known_revision:
                    return False
            elif not listing.is_unchanged:
                return False
        return True

    async def snapshot(self, first_wait_s: float | None = None) -> Snapshot:
        """The current table. A source that does not answer in time appears with its last list.

        Args:
            first_wait_s: seconds that a source without a known list may take; None for `FIRST_WAIT_S`.
        """
        listings = self._listings
        await self._list(listings, first_wait_s)
        changed = [listing.update() for listing in listings]
        if any(changed) or not self._is_current:
            self._snapshot, self._is_current = self._merge(), True
        return self._snapshot

    async def close(self) -> None:
        """Close all sources, each in bounded time. Idempotent."""
        self._listener = None
        await asyncio.gather(*(_close(listing) for listing in self._listings), *self._closing)

    def _enter(self, source: Source) -> Listing:
        source.watch(self._notify_listener)
        name = _closing_name(source)
        source.predecessors = tuple(task for task in self._closing if task.get_name() == name)
        self._is_current = False
        return Listing(source)

    async def wait_for_change(self, seconds: float) -> None:
        """Wait until a source reports a change or answers late, at most so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._change.wait()

    def _notify_listener(self) -> None:
        self._change.set()
        self._change = asyncio.Event()
        if self._listener is not None:
            self._listener()

    async def _list(self, listings: Sequence[Listing], first_wait_s: float | None) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time() + longest_wait_s(
            first_wait_s
        )  # for a listing that runs, and the next one together
        begun = [(listing, listing.begin(loop.time())) for listing in listings]
        await asyncio.sleep(0)  # a source that answers from memory is done after one loop iteration
        while True:
            waits = [listing.pending(number, loop.time(), first_wait_s) for listing, number in begun]
            pending = {task: seconds for task, seconds in waits if task is not None}
            left = last - loop.time()
            in_time = {
                task: min(seconds, left) for task, seconds in pending.items() if min(seconds, left) > 0
            }
            if not in_time:
                self._watch_overdue(pending)
                return
            await asyncio.wait(in_time, timeout=min(in_time.values()))

    def _watch_overdue(self, tasks: Iterable[asyncio.Task[Sequence[Tool]]]) -> None:
        """Refresh when a listing ends after its time limit, so that clients are notified of changes."""
        for task in tasks:
            if task not in self._overdue:
                self._overdue.add(task)
                task.add_done_callback(self._listing_ended)

    def _listing_ended(self, task: asyncio.Task[Sequence[Tool]]) -> None:
        self._overdue.discard(task)
        if not task.cancelled():
            self._notify_listener()

    def _merge(self) -> Snapshot:
        tools_by_source = [(listing.source, listing.tools) for listing in self._listings]
        named_tools, issues = naming.assign(tools_by_source, self.internal_prefix)
        addresses = app_addresses(tools_by_source, self._snapshot.addresses)
        tools = tuple(_offer(entry, addresses) for entry in named_tools)
        filtered: dict[str, Source] = {}
        withheld: dict[str, str] = {}
        offered_names = {(entry.source.id, entry.item.name): entry.name for entry in named_tools}
        for listing in self._listings:
            issues += (
                _under_offered_name(issue, listing.source, offered_names) for issue in listing.issues()
            )
            prefix = naming.prefix_of(listing.source)
            filtered |= {prefix + name: listing.source for name in listing.filtered}
            withheld |= listing.source.withheld()
        if not self._listings:
            issues.append(Issue("warning", "source", "NO_SOURCES", "No source of tools is configured"))
        by_name = {tool.name: tool for tool in tools}
        sources = tuple(listing.source for listing in self._listings)
        merged = offerings.merge(sources, addresses)
        issues += merged.issues
        awaited = frozenset(listing.source.id for listing in self._listings if listing.is_awaited)
        return Snapshot(
            tools,
            sources,
            tuple(self._refused + issues),
            filtered,
            withheld,
            by_name,
            awaited,
            merged,
            addresses,
        )


def _closing_name(source: Source) -> str:
    return f"close-{source.id}"


def _under_offered_name(issue: Issue, source: Source, names: Mapping[tuple[str, str], str]) -> Issue:
    """The issue of a source about a tool, under the name by which people know the tool."""
    if issue.tool_name is None:
        return issue
    name = names.get((source.id, issue.tool_name)) or naming.usual_name(source, issue.tool_name)
    return issue if name == issue.tool_name else structs.replace(issue, tool_name=name)


async def _close(listing: Listing) -> None:
    try:
        await asyncio.wait_for(listing.close(), CLOSE_S)
    except Exception as fault:  # noqa: BLE001  the other sources must still be closed
        log.fault("source_close_failed", fault, source=listing.source.id)


def _validator(schema: Mapping[str, Any]) -> Validator:
    # loaded with the first call: health answers need not wait for the schema library
    from workspace_server.schemas.validation import validator_for

    return validator_for(schema)


def _offer(entry: naming.Named[Tool], addresses: AppAddresses) -> OfferedTool:
    definition = entry.item.definition
    if addresses:
        definition = addresses.shown_definition(entry.source, definition)
    if definition.get("name") != entry.name:
        definition = {**definition, "name": entry.name}
    return OfferedTool(entry.name, entry.item, entry.source, definition)
