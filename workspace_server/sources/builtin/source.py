"""Offers the built-in tools as a source. Their names have no prefix, and they are always ready."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from workspace_server.call_context import CallContext
from workspace_server.source import Source, SourceKind
from workspace_server.tool import CallOutcome, Tool, ToolResult
from workspace_server.workspace import Workspace

if TYPE_CHECKING:
    from workspace_server.sources.builtin.search.query import SearchSettings

_PACKAGE: Final = "workspace_server.sources.builtin.tools"
_IN_WORKSPACE: Final = ("find_files", "find_text", "list_directory", "read_file")
_INDEPENDENT: Final = ("calculator", "date_time")
_SEARCHES: Final = frozenset({"lm_findFiles", "lm_findTextInFiles", "lm_readFile"})

KEPT_S: Final = 900.0
"""Seconds for which lists of files are kept after the last search."""


class BuiltinSource(Source):
    """The tools every workspace has."""

    id = "builtin"
    kind: SourceKind = "builtin"
    nowait_tools = frozenset({"calculator"})

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._idle: asyncio.TimerHandle | None = None

    async def list_tools(self) -> Sequence[Tool]:
        """Return all built-in tools; always the same object."""
        return self._tools

    def cached_tools(self) -> Sequence[Tool]:
        """Return the same tools as `list_tools`."""
        return self._tools

    async def call_tool(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        """Run a tool (see `Source.call_tool`)."""
        module, needs_workspace = self._modules[name]
        result: ToolResult
        if name in _SEARCHES:
            try:
                result = await module.call(self._workspace, arguments, settings=self._searches)
            finally:
                self._forget_later()
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
        if self._idle is not None:
            self._idle.cancel()
            self._searches.listings.forget()

    def _forget_later(self) -> None:
        """Free the lists of files when no search used them for a while."""
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(KEPT_S, self._searches.listings.forget)

    @cached_property
    def _searches(self) -> SearchSettings:
        from workspace_server.sources.builtin.search.query import SearchSettings  # noqa: PLC0415  as `_modules`

        return SearchSettings()

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
