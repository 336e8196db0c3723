"""One source as the registry sees it: its last good list, and the listing that is under way.

A listing that fails or hangs never takes the last good list away (T-4). Merging is `registry.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from protocol.issues import Issue
from workspace_server import log
from workspace_server.source import Source, Tool

FIRST_WAIT_S: Final = 2.0
"""How long a list waits for a source that was never listed (T-6)."""
WAIT_S: Final = 0.2
"""How long a list waits for a source whose last list is known."""


class Listing:
    """The tools of one source.

    Attributes:
        source: the source itself.
        tools: its tools that can be offered, from the last good list.
        stale: whether that list may be out of date.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tools: tuple[Tool, ...] = ()
        self.stale = False
        self._listed: tuple[Tool, ...] | None = None
        self._problems: list[Issue] = []
        self._cause: str | None = None
        self._refreshed_at: float | None = None
        self._task: asyncio.Task[Sequence[Tool]] | None = None
        self._started = 0.0

    def begin(self, now: float) -> None:
        """Ask the source for its list, unless it is still being asked. `now` is the loop's time."""
        if self._task is None:
            self._started = now
            self._task = asyncio.create_task(_list(self.source), name=f"list-{self.source.id}")

    def waiting(self, now: float) -> tuple[asyncio.Task[Sequence[Tool]] | None, float]:
        """The listing under way, if it is not done, and the seconds that may still be spent on it."""
        if self._task is None or self._task.done():
            return None, 0.0
        return self._task, self._started + (FIRST_WAIT_S if self._listed is None else WAIT_S) - now

    def settle(self) -> bool:
        """Take in the listing if it is done; whether anything about the source differs now."""
        before = (self._listed, self._cause, self.stale)
        task = self._task
        if task is None:
            return False  # somebody who asked at the same time has taken it in
        if task.done():
            self._task = None
            self._take(task)
        else:
            self.stale = self._listed is not None
        return before != (self._listed, self._cause, self.stale)

    def _take(self, task: asyncio.Task[Sequence[Tool]]) -> None:
        tools: tuple[Tool, ...] = ()
        try:
            tools = tuple(task.result())
            self._cause = (self.source.error or "unknown") if self.source.state == "failed" else None
        except Exception as fault:  # noqa: BLE001  a source that breaks its promise must not break the list
            log.fault("source_list_failed", fault, source=self.source.id)
            self._cause = f"{type(fault).__name__}: {fault}"
        self.stale = self._cause is not None
        if self._cause is None:
            self._refreshed_at = time.time()
        elif not tools:
            return  # the old list stays
        if tools != self._listed:
            self._listed = tools
            self.tools, self._problems = _check(self.source, tools)

    def issues(self) -> list[Issue]:
        """What is wrong with the source and with single tools of it (T-4, T-6, T-11, T-18)."""
        details = f"source {self.source.id}"
        found = list(self._problems)
        if self._cause is not None:
            text = f"Failed to fetch tools: {self._cause}"
            level: Any = "error" if self._listed is None else "warning"
            found.append(Issue(level, "source", "SOURCE_UNAVAILABLE", text, details=details))
        elif self._listed is None:
            text = f'Source "{self.source.id}" has not answered yet; its tools follow'
            found.append(Issue("warning", "source", "SOURCE_STARTING", text, details=details))
        return found

    def as_dict(self) -> dict[str, Any]:
        """The source in health and status; `lastRefresh` in seconds since 1970 (T-1)."""
        return {
            "id": self.source.id,
            "kind": self.source.kind,
            "namespace": self.source.namespace,
            "state": self.source.state,
            "tools": len(self.tools),
            "stale": self.stale,
            "lastRefresh": self._refreshed_at,
            "error": self._cause or self.source.error,
        }

    async def close(self) -> None:
        """Stop asking, and close the source."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.source.close()


async def _list(source: Source) -> Sequence[Tool]:
    """The tools of a source; one that is switched off or not trusted offers none and is not asked."""
    return () if source.state in {"disabled", "pending_trust"} else await source.list_tools()


def _check(source: Source, tools: Sequence[Tool]) -> tuple[tuple[Tool, ...], list[Issue]]:
    """The tools that can be offered, and why the others cannot (T-11, T-18)."""
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
    from workspace_server.validation import validator_for  # noqa: PLC0415

    try:
        unchecked = validator_for(schema).unchecked
    except ValueError as problem:
        text = f'Tool "{tool.name}": {problem}'
        return Issue("error", "schema", "TOOL_SCHEMA_INVALID", text, tool.name, details)
    if unchecked is None:
        return None
    text = f'The arguments of "{tool.name}" are not checked: {unchecked}'
    return Issue("warning", "schema", "TOOL_SCHEMA_UNCHECKED", text, tool.name, details)
