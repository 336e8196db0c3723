"""One source as the registry sees it: its last good list, and the listing that is under way.

A listing that fails or hangs never takes the last good list away. Merging is `registry.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from protocol.issues import Issue
from workspace_server import log
from workspace_server.source import Source
from workspace_server.tool import Tool

FIRST_WAIT_S: Final = 2.0
"""How long a list waits for a source that was never listed."""
WAIT_S: Final = 0.2
"""How long a list waits for a source whose last list is known."""
_SILENT: Final = frozenset({"disabled", "pending_trust"})
"""States in which a source is not asked, and offers nothing."""
_DOWN: Final = frozenset({"failed", "backoff", "crash_looping", "auth_required"})
"""States whose list, if there is one, is what the source had when it last answered."""


class Listing:
    """The tools of one source.

    Attributes:
        source: the source itself.
        tools: its tools that can be offered, from the last good list.
        filtered: own names of tools that its configuration leaves out.
        stale: whether that list may be out of date.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tools: tuple[Tool, ...] = ()
        self.filtered: tuple[str, ...] = ()
        self.stale = False
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
        """Ask the source for its list; returns the ticket of a listing that begins now or later.

        A listing under way may have looked before what its new asker wants to see; it gets the next one. What
        a source knows without waiting is taken at once. `now` is the loop's time.
        """
        if self._task is not None or self._closed:
            return self._begun + 1
        if self.source.state not in _SILENT and (tools := self.source.known()) is not None:
            self._known = tools
            self._take(tools, is_fresh=False)
            return self._begun
        self._start(now)
        return self._begun

    def waiting(self, ticket: int, now: float) -> tuple[asyncio.Task[Sequence[Tool]] | None, float]:
        """The listing that a ticket still waits for, and the seconds that may be spent on it."""
        self._settle()
        if self._task is None:
            if self._closed or self._begun >= ticket:
                return None, 0.0
            self._start(now)
        return self._task, self._started + (FIRST_WAIT_S if self._listed is None else WAIT_S) - now

    def look(self) -> bool:
        """Whether anything about the source differs from the last look."""
        self._settle()
        if self._task is not None:
            self.stale = self._listed is not None
        source = self.source
        said = (tuple(source.issues()), source.withheld(), source.extras())
        seen = (self._listed, self._cause, self.stale, *said)
        before, self._seen, self._revision = self._seen, seen, source.revision
        return before != seen

    @property
    def is_unchanged(self) -> bool:
        """Whether asking the source again would find its tools as they were at the last look."""
        source = self.source
        if self._task is not None or source.revision != self._revision:
            return False
        return self._listed == () if source.state in _SILENT else source.known() is self._known is not None

    def _start(self, now: float) -> None:
        self._begun += 1
        self._started = now
        self._task = asyncio.create_task(_list(self.source), name=f"list-{self.source.id}")

    def _settle(self) -> None:
        """Take in the listing under way if it is done."""
        if self._task is not None and self._task.done():
            task, self._task = self._task, None
            try:
                self._take(task.result(), is_fresh=True)
            except Exception as fault:  # noqa: BLE001  one that breaks its promise must not break the list
                log.fault("source_list_failed", fault, source=self.source.id)
                self._cause, self.stale = f"{type(fault).__name__}: {fault}", True

    def _take(self, listed: Sequence[Tool], *, is_fresh: bool) -> None:
        self._cause = (self.source.error or self.source.state) if self.source.state in _DOWN else None
        self.stale = self._cause is not None
        if self._cause is not None and not listed:
            return  # the old list stays
        if self._cause is None and (is_fresh or self._refreshed_at is None):
            self._refreshed_at = time.time()
        tools = tuple(listed)
        if tools != self._listed:
            self._listed = tools
            wanted = tuple(tool for tool in tools if is_wanted(self.source, tool.name))
            self.filtered = (
                tuple(tool.name for tool in tools if tool not in wanted) if wanted != tools else ()
            )
            self.tools, self._problems = _check(self.source, wanted)

    def issues(self) -> list[Issue]:
        """What is wrong with the source and with single tools of it."""
        details = f"source {self.source.id}"
        found = [*self._problems, *self.source.issues()]
        if self._cause is not None:
            text = f"Failed to fetch tools: {self._cause}"
            level: Any = "error" if self._listed is None else "warning"
            found.append(Issue(level, "source", "SOURCE_UNAVAILABLE", text, details=details))
        elif self._listed is None:
            text = f'Source "{self.source.id}" has not answered yet; its tools follow'
            found.append(Issue("warning", "source", "SOURCE_STARTING", text, details=details))
        return found

    def as_dict(self) -> dict[str, Any]:
        """The source in health and status; `lastRefresh` in seconds since 1970."""
        return {
            "id": self.source.id,
            "kind": self.source.kind,
            "namespace": self.source.namespace,
            "state": self.source.state,
            "tools": len(self.tools),
            "stale": self.stale or self.source.stale,
            "lastRefresh": self._refreshed_at,
            "error": self._cause or self.source.error,
        }

    async def close(self) -> None:
        """Stop asking, and close the source."""
        self._closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.source.close()


async def _list(source: Source) -> Sequence[Tool]:
    """The tools of a source; one that is switched off or not trusted offers none and is not asked."""
    return () if source.state in _SILENT else await source.list_tools()


def is_wanted(source: Source, name: str) -> bool:
    """Whether the filters of a source let a tool through; `exclude` beats `include`."""
    if any(fnmatchcase(name, pattern) for pattern in source.exclude):
        return False
    return not source.include or any(fnmatchcase(name, pattern) for pattern in source.include)


def _check(source: Source, tools: Sequence[Tool]) -> tuple[tuple[Tool, ...], list[Issue]]:
    """The tools that can be offered, and why the others cannot."""
    good: dict[str, Tool] = {}
    issues: list[Issue] = []
    details = f"source {source.id}"
    for tool in tools:
        if tool.name in good:
            text = f'Tool "{tool.name}" is already registered'
            issues.append(Issue("warning", "names", "TOOL_NAME_DUPLICATE", text, tool.name, details))
            continue
        issue = None if source.kind == "builtin" else _schema_issue(tool, details)
        if issue is not None:
            issues.append(issue)
        if issue is None or issue.level == "warning":
            good[tool.name] = tool
    return tuple(good.values()), issues


def _schema_issue(tool: Tool, details: str) -> Issue | None:
    schema = tool.definition.get("inputSchema")
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        text = f'Tool "{tool.name}" has no inputSchema of type object'
        return Issue("error", "schema", "TOOL_SCHEMA_INVALID", text, tool.name, details)
    # loaded here: the built-ins are ours and tested, and many workspaces have no other source
    from workspace_server.schemas.validation import validator_for  # noqa: PLC0415

    try:
        unchecked = validator_for(schema).unchecked
    except ValueError as problem:
        text = f'Tool "{tool.name}": {problem}'
        return Issue("error", "schema", "TOOL_SCHEMA_INVALID", text, tool.name, details)
    if unchecked is None:
        return None
    text = f'The arguments of "{tool.name}" are not checked: {unchecked}'
    return Issue("warning", "schema", "TOOL_SCHEMA_UNCHECKED", text, tool.name, details)
