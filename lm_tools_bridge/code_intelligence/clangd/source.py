"""Offers the clangd tools as a source of its own: exposed, and enabled only if the user says so."""

from __future__ import annotations

import asyncio
import importlib
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import LanguageServers, restarted
from lm_tools_bridge.code_intelligence.settings import ClangdSettings
from lm_tools_bridge.code_intelligence.tools.workplace import Environment, Workplace
from workspace_server.call_context import CallContext
from workspace_server.source import Default, Source, SourceKind
from workspace_server.tool import CallOutcome, Tool, ToolResult
from workspace_server.workspace import Workspace

ID: Final = "clangd"
_PACKAGE: Final = "lm_tools_bridge.code_intelligence.clangd"


class ClangdSource(Source):
    """The tools `lm_clangd_*`.

    Args:
        workspace: the workspace.
        servers: its language servers, which another source closes.
        settings: what the user set; a change of them needs another source.
        environment: the user's variables, which name libraries.
    """

    id = ID
    kind: SourceKind = "language-server"
    default: Default = "exposed"
    keywords = ("c++", "clangd")
    known_until = math.inf
    is_self_contained = True

    def __init__(
        self,
        workspace: Workspace,
        servers: LanguageServers,
        settings: ClangdSettings,
        environment: Environment,
    ) -> None:
        self._workplace = Workplace(workspace, servers, time.time(), environment)
        self._settings = settings
        self._tools: Sequence[Tool] | None = None

    async def list_tools(self) -> Sequence[Tool]:
        """All tools, whether clangd is installed or not: `lm_clangd_status` says what is missing."""
        return self.cached_tools()

    def cached_tools(self) -> Sequence[Tool]:
        """As `list_tools`."""
        if self._tools is None:
            self._tools = importlib.import_module(f"{_PACKAGE}.definitions").tools_of(self._settings)
        return self._tools

    async def restart(self) -> str:
        """As `Source.restart`: of all language servers, which this source shares."""
        effect = restarted(self._workplace.servers.status())
        self._workplace.servers.restart()
        return effect

    async def call_tool(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        """Run a tool (see `Source.call_tool`)."""
        if context.folder:
            from workspace_server.sources import agent_folder  # noqa: PLC0415  most agents work in the root

            reading = await asyncio.to_thread(
                agent_folder.read_arguments, self._workplace.workspace, context.folder, arguments
            )
            outcome = await self._run(name, reading.arguments)
            return reading.noted(outcome) if isinstance(outcome, ToolResult) else outcome
        return await self._run(name, arguments)

    async def _run(self, name: str, arguments: Mapping[str, Any]) -> CallOutcome:
        # loaded here: few projects use these tools
        calls = importlib.import_module(f"{_PACKAGE}.calls")
        outcome: CallOutcome = await calls.run(name, arguments, self._workplace, self._settings)
        return outcome

    async def close(self) -> None:
        """Do nothing: the language servers end with the workspace."""
