"""Lists the tools of one source, and keeps its last good list when a listing fails or hangs.

`registry.py` merges the lists.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Final

from lm_tools_bridge.protocol.internal.source_states import DOWN, UNUSED, shown_state
from lm_tools_bridge.protocol.issues import Issue
from workspace_server import log
from workspace_server.source import Source
from workspace_server.tool import Tool

FIRST_WAIT_S: Final = 2.0
"""Time limit for a source without a known list, unless a request names another."""
WAIT_S: Final = 0.2
"""Time limit for a source with a known list."""

_MAX_NAMED: Final = 5
"""Members that an issue names."""
_OWN_DEFINITIONS: Final = frozenset({"builtin", "language-server"})
"""Kinds of sources whose schemas are part of this program, and valid."""


def longest_wait_s(first_wait_s: float | None) -> float:
    """Seconds that a request may wait in all; `first_wait_s` as in `Listing.pending`."""
    return max(WAIT_S, FIRST_WAIT_S if first_wait_s is None else first_wait_s)


class Listing:
    """The tools of one source.

    Attributes:
        source: the source itself.
        tools: the valid tools of the last good list.
        filtered: the source's own names of tools that `include` or `exclude` leaves out.
        stale: whether the list may be out of date.
        known_revision: the source's revision of which the list is, if the source knew it without waiting.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tools: tuple[Tool, ...] = ()
        self.filtered: tuple[str, ...] = ()
        self.stale = False
        self.known_revision: int | None = None
        self._listed: tuple[Tool, ...] | None = None
        self._problems: list[Issue] = []
        self._cause: str | None = None
        self._refreshed_at: float | None = None
        self._task: asyncio.Task[Sequence[Tool]] | None = None
        self._started = 0.0
        self._closed = False
        self._begun = 0
        self._seen: tuple[object, ...] | None = None
        self._known: Sequence[Tool] | None = None
        self._revision = -1

    def begin(self, now: float) -> int:
        """Request a list from the source; returns the number of a listing that begins now or later.

        A listing that is already running may be too old for this request, which then gets the next one. A
        list that the source knows without waiting is used directly. `now` is the loop's time.
        """
        if self._task is not None or self._closed:
            return self._begun + 1
        if self.source.state not in UNUSED and (tools := self.source.cached_tools()) is not None:
            self._known, self.known_revision = tools, self.source.revision
            self._take(tools, is_fresh=False)
            return self._begun
        self._start(now)
        return self._begun

    def pending(
        self, number: int, now: float, first_wait_s: float | None
    ) -> tuple[asyncio.Task[Sequence[Tool]] | None, float]:
        """The task that this listing waits for (None if it is done), and the seconds left for it.

        Args:
            first_wait_s: how long a listing without a known list may take from its start; None for
                `FIRST_WAIT_S`.
        """
        self._collect()
        if self._task is None:
            if self._closed or self._begun >= number:
                return None, 0.0
            self._start(now)
        first_wait_s = FIRST_WAIT_S if first_wait_s is None else first_wait_s
        return self._task, self._started + (first_wait_s if self._listed is None else WAIT_S) - now

    def update(self) -> bool:
        """Take in the current state of the source; returns whether anything changed since the last time."""
        self._collect()
        if self._task is not None:
            self.stale = self._listed is not None
        source = self.source
        reported = (tuple(source.issues()), source.withheld(), source.offerings())
        state = (self._listed, self._cause, self.stale, self.is_awaited, *reported)
        before, self._seen, self._revision = self._seen, state, source.revision
        return before != state

    @property
    def is_awaited(self) -> bool:
        """Whether the source is listing its tools for the first time."""
        return self._listed is None and self._task is not None

    @property
    def is_unchanged(self) -> bool:
        """Whether listing the source again would give the tools of the last `update`."""
        source = self.source
        if self._task is not None or source.revision != self._revision:
            return False
        return (
            self._listed == () if source.state in UNUSED else source.cached_tools() is self._known is not None
        )

    def _start(self, now: float) -> None:
        self._begun += 1
        self._started = now
        self.known_revision = None
        self._task = asyncio.create_task(_list(self.source), name=f"list-{self.source.id}")

    def _collect(self) -> None:
        """Take in the running listing if it is done."""
        if self._task is not None and self._task.done():
            task, self._task = self._task, None
            try:
                self._take(task.result(), is_fresh=True)
            except Exception as fault:  # noqa: BLE001  one faulty source must not break the whole list
                log.fault("source_list_failed", fault, source=self.source.id)
                self._cause, self.stale = f"{type(fault).__name__}: {fault}", True

    def _take(self, fresh_tools: Sequence[Tool], *, is_fresh: bool) -> None:
        self._cause = (self.source.error or self.source.state) if self.source.state in DOWN else None
        self.stale = self._cause is not None
        if self._cause is not None and not fresh_tools:
            return  # keep the old list
        if self._cause is None and (is_fresh or self._refreshed_at is None):
            self._refreshed_at = time.time()
        tools = tuple(fresh_tools)
        if tools != self._listed:
            self._listed = tools
            passing = tuple(tool for tool in tools if passes_filters(self.source, tool.name))
            self.filtered = (
                tuple(tool.name for tool in tools if tool not in passing) if passing != tools else ()
            )
            self.tools, self._problems = _check(self.source, passing)

    def issues(self) -> list[Issue]:
        """Problems of the source and of its single tools."""
        details = f"source {self.source.id}"
        issues = [*self._problems, *self.source.issues()]
        if self._cause is not None:
            text = f"Failed to fetch tools: {self._cause}"
            level: Any = "error" if self._listed is None else "warning"
            issues.append(Issue(level, "source", "SOURCE_UNAVAILABLE", text, details=details))
        elif self._listed is None:
            text = f'Source "{self.source.id}" has not answered yet; its tools are listed as soon as it does'
            issues.append(Issue("warning", "source", "SOURCE_STARTING", text, details=details))
        return issues

    def as_dict(self) -> dict[str, Any]:
        """The source for health and status; `lastRefresh` in seconds since 1970."""
        error = self._cause or self.source.error or self.source.part_error
        signs_in = self.source.signs_in
        return {
            **({} if signs_in is None else {"signsIn": signs_in}),
            "id": self.source.id,
            "kind": self.source.kind,
            "namespace": self.source.namespace,
            "state": shown_state(self.source.state, error),
            "tools": len(self.tools),
            "stale": bool(self.tools) and (self.stale or self.source.stale),
            "lastRefresh": self._refreshed_at,
            "file": self.source.project_file,
            "error": error,
            "pid": self.source.shared_pid,
        }

    async def close(self) -> None:
        """Cancel the running listing and close the source."""
        self._closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.source.close()


async def _list(source: Source) -> Sequence[Tool]:
    """The tools of a source; a disabled or untrusted source has none and is not asked."""
    return () if source.state in UNUSED else await source.list_tools()


def passes_filters(source: Source, name: str) -> bool:
    """Whether a source's `include` and `exclude` patterns let a tool pass; `exclude` takes precedence."""
    if any(fnmatchcase(name, pattern) for pattern in source.exclude):
        return False
    return not source.include or any(fnmatchcase(name, pattern) for pattern in source.include)


def _check(source: Source, tools: Sequence[Tool]) -> tuple[tuple[Tool, ...], list[Issue]]:
    """The valid tools, and issues about the others."""
    good: dict[str, Tool] = {}
    issues: list[Issue] = []
    details = f"source {source.id}"
    for tool in tools:
        if tool.name in good:
            text = f'Tool "{tool.name}" is already registered'
            issues.append(Issue("warning", "names", "TOOL_NAME_DUPLICATE", text, tool.name, details))
            continue
        readable, problems = (tool, []) if source.kind in _OWN_DEFINITIONS else _readable(tool, details)
        issues += problems
        if readable is not None:
            good[tool.name] = readable
    return tuple(good.values()), issues


def _readable(tool: Tool, details: str) -> tuple[Tool | None, list[Issue]]:
    """The tool with schemas that clients can read, and issues; None if no client may see it."""
    # loaded here: many workspaces have only our own tools, whose schemas are known to be valid
    from workspace_server.schemas import readable_schemas  # noqa: PLC0415  see above

    try:
        readable = readable_schemas.readable_input(tool.definition.get("inputSchema"))
    except readable_schemas.Unusable as problem:
        text = f'Tool "{tool.name}": {problem}'
        return None, [Issue("error", "schema", "TOOL_SCHEMA_INVALID", text, tool.name, details)]
    definition, removed = {**tool.definition, "inputSchema": readable.schema}, readable.removed
    output = definition.get("outputSchema")
    if isinstance(output, Mapping) and (why := readable_schemas.output_problem(output)) is not None:
        del definition["outputSchema"]
        removed += (f"outputSchema ({why})",)
    issues = [_removed_issue(tool.name, removed, details)] if removed else []
    if readable.unchecked is not None:
        text = f'The arguments of "{tool.name}" are not checked: {readable.unchecked}'
        issues.append(Issue("warning", "schema", "TOOL_SCHEMA_UNCHECKED", text, tool.name, details))
    if not issues:
        return tool, []
    return replace(tool, definition=definition, checks_arguments=readable.unchecked is None), issues


def _removed_issue(name: str, removed: Sequence[str], details: str) -> Issue:
    names = ", ".join(removed[:_MAX_NAMED]) + (" and others" if len(removed) > _MAX_NAMED else "")
    text = f'Tool "{name}" has members that clients cannot read; they are left out or repaired: {names}'
    return Issue("warning", "schema", "TOOL_MEMBERS_REMOVED", text, name, details)
