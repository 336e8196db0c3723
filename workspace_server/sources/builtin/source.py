"""Offers the built-in tools as a source. Their names have no prefix, and they are always ready."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

from workspace_server.call_context import CallContext
from workspace_server.source import Source, SourceKind
from workspace_server.sources.builtin.kept_searches import KeptSearches
from workspace_server.tool import CallOutcome, Tool, ToolResult
from workspace_server.workspace import Workspace

if TYPE_CHECKING:
    from workspace_server.sources.builtin.search.query import SearchSettings

_GLOBS: Final[Mapping[str, tuple[str, ...]]] = {
    "lm_findFiles": ("query",),
    "lm_findTextInFiles": ("includePattern",),
}
"""The arguments that hold a glob."""


class _ProjectCall(Protocol):
    """Runs a tool that reads the workspace; `settings` hold the lists of files that searches share."""

    def __call__(
        self, workspace: Workspace, arguments: Mapping[str, Any], *, settings: SearchSettings | None = None
    ) -> Awaitable[ToolResult]: ...


class _BuiltinTool(Protocol):
    """One built-in tool as the source runs it."""

    @property
    def tool(self) -> Tool:
        """Its definition."""

    @property
    def needs_workspace(self) -> bool:
        """Whether paths in its arguments are those of the workspace."""

    async def run(
        self, workspace: Workspace, arguments: Mapping[str, Any], searches: KeptSearches
    ) -> ToolResult:
        """Run it with checked arguments."""


@dataclass(frozen=True, slots=True)
class _ProjectTool:
    """A tool that reads files of the workspace; `is_search`: it uses the lists that searches share."""

    tool: Tool
    call: _ProjectCall
    is_search: bool = True
    needs_workspace: bool = True

    async def run(
        self, workspace: Workspace, arguments: Mapping[str, Any], searches: KeptSearches
    ) -> ToolResult:
        settings = searches.settings() if self.is_search else None
        return await self.call(workspace, arguments, settings=settings)


@dataclass(frozen=True, slots=True)
class _IndependentTool:
    """A tool that reads nothing of the workspace."""

    tool: Tool
    call: Callable[[Mapping[str, Any]], Awaitable[ToolResult]]
    needs_workspace: bool = False

    async def run(
        self, workspace: Workspace, arguments: Mapping[str, Any], searches: KeptSearches
    ) -> ToolResult:
        return await self.call(arguments)


class BuiltinSource(Source):
    """The tools every workspace has."""

    id = "builtin"
    kind: SourceKind = "builtin"
    nowait_tools = frozenset({"calculator"})
    known_until = math.inf
    is_self_contained = True

    def __init__(self, workspace: Workspace, searches: KeptSearches | None = None) -> None:
        """Args:
        searches: what its searches share with those of other sources; it is closed with this source.
        """
        self._workspace = workspace
        self._searches = searches or KeptSearches()

    async def list_tools(self) -> Sequence[Tool]:
        """Return all built-in tools; always the same object."""
        return self._tools

    def cached_tools(self) -> Sequence[Tool]:
        """Return the same tools as `list_tools`."""
        return self._tools

    async def call_tool(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        """Run a tool (see `Source.call_tool`)."""
        if context.folder and self._tools_by_name[name].needs_workspace:
            from workspace_server.sources import agent_folder  # noqa: PLC0415  most agents work in the root

            reading = await asyncio.to_thread(
                agent_folder.read_arguments, self._workspace, context.folder, arguments, _GLOBS.get(name, ())
            )
            return reading.noted(await self._run(name, reading.arguments))
        return await self._run(name, arguments)

    async def _run(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        return await self._tools_by_name[name].run(self._workspace, arguments, self._searches)

    def call_nowait(self, name: str, arguments: Mapping[str, Any]) -> CallOutcome:
        """Run a tool that does no I/O (see `Source.call_nowait`)."""
        from workspace_server.sources.builtin.tools import calculator  # noqa: PLC0415  loaded by the first list

        return calculator.call_nowait(arguments)

    async def close(self) -> None:
        """Forget the lists of files."""
        self._searches.close()

    @cached_property
    def _tools_by_name(self) -> Mapping[str, _BuiltinTool]:
        # the first list imports the modules: a server that only passes calls on never needs them
        from workspace_server.sources.builtin.tools import (  # noqa: PLC0415  see above
            calculator,
            date_time,
            find_files,
            find_text,
            list_directory,
            read_file,
        )

        built_in: tuple[_BuiltinTool, ...] = (
            _ProjectTool(find_files.TOOL, find_files.call),
            _ProjectTool(find_text.TOOL, find_text.call),
            _ProjectTool(list_directory.TOOL, list_directory.call, is_search=False),
            _ProjectTool(read_file.TOOL, read_file.call),
            _IndependentTool(calculator.TOOL, calculator.call),
            _IndependentTool(date_time.TOOL, date_time.call),
        )
        return {entry.tool.name: entry for entry in built_in}

    @cached_property
    def _tools(self) -> tuple[Tool, ...]:
        return tuple(entry.tool for entry in self._tools_by_name.values())
