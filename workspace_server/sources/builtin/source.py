"""Offers the built-in tools as a source. Their names have no prefix, and they are always ready."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import ModuleType
from typing import Any, Final

from workspace_server.call_context import CallContext
from workspace_server.source import Source, SourceKind
from workspace_server.sources.builtin.kept_searches import KeptSearches
from workspace_server.tool import CallOutcome, Tool, ToolResult
from workspace_server.workspace import Workspace

_PACKAGE: Final = "workspace_server.sources.builtin.tools"
_IN_WORKSPACE: Final = ("find_files", "find_text", "list_directory", "read_file")
_INDEPENDENT: Final = ("calculator", "date_time")
_SEARCHES: Final = frozenset({"lm_findFiles", "lm_findTextInFiles", "lm_readFile"})

_GLOBS: Final[Mapping[str, tuple[str, ...]]] = {
    "lm_findFiles": ("query",),
    "lm_findTextInFiles": ("includePattern",),
}
"""The arguments that hold a glob."""


class BuiltinSource(Source):
    """The tools every workspace has."""

    id = "builtin"
    kind: SourceKind = "builtin"
    nowait_tools = frozenset({"calculator"})

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
        _, needs_workspace = self._modules[name]
        if context.folder and needs_workspace:
            from workspace_server.sources import agent_folder  # noqa: PLC0415  most agents work in the root

            reading = await asyncio.to_thread(
                agent_folder.read_arguments, self._workspace, context.folder, arguments, _GLOBS.get(name, ())
            )
            return reading.noted(await self._run(name, reading.arguments))
        return await self._run(name, arguments)

    async def _run(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        module, needs_workspace = self._modules[name]
        result: ToolResult
        if name in _SEARCHES:
            result = await module.call(self._workspace, arguments, settings=self._searches.settings())
        elif needs_workspace:
            result = await module.call(self._workspace, arguments)
        else:
            result = await module.call(arguments)
        return result

    def call_nowait(self, name: str, arguments: Mapping[str, Any]) -> CallOutcome:
        """Run a tool that does no I/O (see `Source.call_nowait`)."""
        result: ToolResult = self._modules[name][0].call_nowait(arguments)
        return result

    async def close(self) -> None:
        """Forget the lists of files."""
        self._searches.close()

    @cached_property
    def _modules(self) -> Mapping[str, tuple[ModuleType, bool]]:
        """By tool name the module, and whether it needs the workspace. Imported by the first list."""
        loaded = {}
        for file in (*_IN_WORKSPACE, *_INDEPENDENT):
            module = importlib.import_module(f"{_PACKAGE}.{file}")
            loaded[module.TOOL.name] = (module, file in _IN_WORKSPACE)
        return loaded

    @cached_property
    def _tools(self) -> tuple[Tool, ...]:
        return tuple(module.TOOL for module, _ in self._modules.values())
