"""Offers the language tools as a source: which of them depends on the project's languages.

Until a tool is called this costs one look at the project's files, in a thread: servers start when needed, or
after the first look if they shall be warm.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.code_intelligence.server import LanguageServers, ServerStatus, Unavailable, restarted
from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.tools import definitions
from lm_tools_bridge.code_intelligence.tools.workplace import AskEditor, Environment, Workplace, no_editor
from lm_tools_bridge.machine.disks import are_local
from lm_tools_bridge.machine.own_distribution import programs_folder
from lm_tools_bridge.protocol.internal.source_states import DOWN
from lm_tools_bridge.protocol.issues import Issue
from workspace_server import log
from workspace_server.call_context import CallContext
from workspace_server.source import Source, SourceKind
from workspace_server.sources.builtin.kept_searches import KeptSearches
from workspace_server.tool import CallOutcome, Tool, ToolResult
from workspace_server.workspace import Workspace

if TYPE_CHECKING:
    from lm_tools_bridge.code_intelligence.tools.new_errors import NewErrors

ID: Final = "language_servers"
LOOK_AGAIN_S: Final = 60.0
"""Time after which a list looks again at which languages the project has; doubled while nothing changes."""
RARELY_S: Final = 960.0
"""The longest pause between two looks: the languages of a project rarely change."""
FIRST_LOOK_S: Final = 1.5
"""So long the first list waits for the look; less than a list waits for a source."""
_PACKAGE: Final = "lm_tools_bridge.code_intelligence.tools"
_UNLISTED: Final = replace(definitions.GET_DIAGNOSTICS, unlisted="nothing checks this project")
_NO_SERVER: Final = "no language server knows a language of this project"
_UNKNOWN: Final = (
    replace(definitions.GET_DIAGNOSTICS, unlisted="it is not known yet what checks this project"),
    *(
        replace(tool, unlisted="it is not known yet which languages this project has")
        for tool in definitions.SYMBOL_TOOLS
    ),
)
_MIB: Final = 1024 * 1024  # bytes


def no_window() -> bool:
    """Whether an editor is open, in a workspace that looks for none."""
    return False


class LanguageServerSource(Source):
    """The tools that rest on language servers.

    `lm_getDiagnostics` can always be called, because agents call it after edits in new projects, too. It is
    listed once something can check the project, by its files and the programs that are there, and from then
    on: what a check finds, or a server that ends, changes no list. It is also listed where a server for a
    language of the project is missing, because its answer says how to get one. The others are listed while a
    server for a language of the project can run. They can be called always: the first file of a language may
    be younger than the last look.
    """

    id = ID
    kind: SourceKind = "language-server"
    keywords = ("code", "language server", "lsp")
    is_self_contained = True

    def __init__(
        self,
        workspace: Workspace,
        servers: LanguageServers,
        environment: Environment,
        editor: AskEditor = no_editor,
        *,
        searches: KeptSearches | None = None,
        warm: bool = False,
        compares_words: bool = True,
        tells_new_errors: bool = True,
        has_editor: Callable[[], bool] = no_window,
    ) -> None:
        """Args:
        searches: what its searches share with those of other sources.
        has_editor: whether an editor has the project open, which checks it as well.
        warm: whether the servers for symbols start after the first look, without a call.
        compares_words: whether answers are compared with the words in the project's files.
        tells_new_errors: whether answers tell of errors that came since the client's last answer.
        """
        self._servers = servers
        self._has_editor = has_editor
        self._is_checked = False
        self._is_cold = warm
        self._warming: asyncio.Task[None] | None = None
        self._workplace = Workplace(
            workspace, servers, time.time(), environment, editor, searches or KeptSearches(), compares_words
        )
        self._tells_new_errors = tells_new_errors
        self._new_errors: NewErrors | None = None
        self._tools: tuple[Tool, ...] | None = None
        self._looking: asyncio.Task[None] | None = None
        self.known_until, self._pause_s = -math.inf, LOOK_AGAIN_S
        self._installed = _Installed()
        self._issue: Issue | None = None
        self._waiting: tuple[Issue, ...] = ()

    async def list_tools(self) -> Sequence[Tool]:
        """The tools for the languages that the project has; the first list waits for a look at them."""
        is_first = self.cached_tools() is None
        looking = self._begin_look()
        if is_first and looking is not None:
            await asyncio.wait({looking}, timeout=FIRST_LOOK_S)
        return self.cached_tools() or self._tools or _UNKNOWN

    def cached_tools(self) -> Sequence[Tool] | None:
        """The tools by the last look, which is repeated now and then.

        None before the first look, and where the user installed or removed a server since the last one.
        """
        if self._tools is not None and self._installed.has_changed():
            self.known_until = -math.inf
            return None
        if self._tools is not None:
            self._begin_look()
            if self._tools[0].unlisted and (self._is_checked or self._has_editor()):
                self._is_checked = True
                self._tools = (definitions.GET_DIAGNOSTICS, *self._tools[1:])
        return self._tools

    async def call_tool(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        """Run a tool (see `Source.call_tool`)."""
        if context.folder:
            from workspace_server.sources import agent_folder  # noqa: PLC0415  most agents work in the root

            reading = await asyncio.to_thread(
                agent_folder.read_arguments, self._workplace.workspace, context.folder, arguments
            )
            outcome = await self._run(name, reading.arguments, context)
            return reading.noted(outcome) if isinstance(outcome, ToolResult) else outcome
        return await self._run(name, arguments, context)

    async def _run(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        await self.wait_for_predecessors()
        self._look_for_new_languages(name)
        name, arguments = definitions.tool_for(name, arguments)
        # loaded here: most servers are never asked
        module = importlib.import_module(f"{_PACKAGE}.{definitions.MODULES[name]}")
        second_try = importlib.import_module(f"{_PACKAGE}.second_try")
        if self._new_errors is not None:
            self._new_errors.begin(context)
        if name != definitions.GET_DIAGNOSTICS.name:
            outcome: CallOutcome = await second_try.answered(
                lambda said: module.call(name, self._workplace, said, context), arguments
            )
            return await self._with_new_errors(outcome, name, arguments, context)
        result: ToolResult = await second_try.answered(
            lambda said: module.call(self._workplace, said, context), arguments
        )
        self._set_issue(None if module.has_source(result) else _no_source(result.structured["note"]))
        return await self._with_new_errors(result, name, arguments, context)

    async def _with_new_errors(
        self, outcome: CallOutcome, name: str, arguments: Mapping[str, Any], context: CallContext
    ) -> CallOutcome:
        if not self._tells_new_errors or not isinstance(outcome, ToolResult):
            return outcome
        if self._new_errors is None:
            from lm_tools_bridge.code_intelligence.tools.new_errors import NewErrors  # noqa: PLC0415  for calls only

            self._new_errors = NewErrors(self._workplace)
        return await self._new_errors.add_to(outcome, name, arguments, context)

    async def refresh(self) -> None:
        """Look at the languages again, and let each server start anew at its next use."""
        self._servers.restart()
        self.known_until, self._pause_s = -math.inf, LOOK_AGAIN_S
        self._begin_look()
        await super().refresh()

    async def restart(self) -> str:
        """As `Source.restart`."""
        done = restarted(self._servers.status())
        await self.refresh()
        return done

    def issues(self) -> Sequence[Issue]:
        """Which servers wait for trust; and that nothing checks the project, once that was asked for."""
        return self._waiting if self._issue is None else (*self._waiting, self._issue)

    def status(self) -> Mapping[str, Any]:
        """The servers that were needed."""
        return {"languageServers": [_members(server) for server in self._servers.status()]}

    @property
    def part_error(self) -> str | None:
        """Why language servers do not run that were needed."""
        down = [server for server in self._servers.status() if server.state in DOWN]
        return "; ".join(f"{server.name}: {server.error or server.state}" for server in down) or None

    async def close(self) -> None:
        """End the servers."""
        if self._looking is not None:
            await asyncio.gather(self._looking, return_exceptions=True)
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)
        if self._new_errors is not None:
            await self._new_errors.close()
        await self._servers.close()

    def _look_for_new_languages(self, name: str) -> None:
        """Look again if a tool is called for which the last look saw no server: there may be one now."""
        if any(tool.name == name and tool.unlisted == _NO_SERVER for tool in self._tools or ()):
            self.known_until = -math.inf
            self._begin_look()

    def _begin_look(self) -> asyncio.Task[None] | None:
        now = asyncio.get_running_loop().time()
        if self._looking is None and now >= self.known_until:
            self._looking = asyncio.create_task(self._look(), name="languages")
        return self._looking

    async def _look(self) -> None:
        """Find out which tools to offer. A failure leaves those that were there."""
        installed = await asyncio.to_thread(_Installed.look)
        try:
            tools, lacks_server = await asyncio.to_thread(self._offered)
            if lacks_server:  # it may be on the PATH of the user's login shell, which is not asked in vain
                await self._workplace.environment()
                tools, _ = await asyncio.to_thread(self._offered)
            waiting = await asyncio.to_thread(self._waiting_for_trust)
        except Exception as fault:  # noqa: BLE001  the next look may succeed
            log.fault("languages_unknown", fault)
            tools, waiting = self._tools or _UNKNOWN, self._waiting
        finally:
            self._looking, self._installed = None, installed
            self.known_until = asyncio.get_running_loop().time() + self._pause_s
            self._pause_s = min(2 * self._pause_s, RARELY_S)
        if (tools, waiting) != (self._tools, self._waiting):
            self._tools, self._waiting, self._pause_s = tools, waiting, LOOK_AGAIN_S
            self.notify_changed()
        if self._is_cold and any(not tool.unlisted for tool in tools[1:]):
            self._is_cold = False
            self._warming = asyncio.create_task(self._warm_up(), name="warm up language servers")

    async def _warm_up(self) -> None:
        """Start the servers for symbols. What fails is told by the first call that needs it."""
        try:
            await self.wait_for_predecessors()
            await self._servers.for_project("symbols")
        except Exception as fault:  # noqa: BLE001  servers may start at their first use as well
            log.fault("languages_not_warmed", fault)

    def _offered(self) -> tuple[tuple[Tool, ...], bool]:
        """The tools to offer now, and whether the project has code whose server was not found. Blocks."""
        runnable = self._servers.runnable()
        if self._has_editor() or any("diagnostics" in kind.roles for kind in runnable):
            self._is_checked = True
        known = self._servers.known_kinds()
        lacks_server = any(
            "symbols" in kind.roles and not kind.limits and not kind.is_optional for kind in known
        )
        # its answer says how to get the server
        first = definitions.GET_DIAGNOSTICS if self._is_checked or lacks_server else _UNLISTED
        for_symbols = [kind for kind in runnable if "symbols" in kind.roles]
        if any(not kind.limits for kind in for_symbols):
            return (first, *definitions.SYMBOL_TOOLS), False
        lacks_server = lacks_server or any("symbols" in kind.roles and not kind.limits for kind in known)
        enough = definitions.OUTLINE_TOOLS if for_symbols else ()
        tools = (
            tool if tool in enough else replace(tool, unlisted=_NO_SERVER)
            for tool in definitions.SYMBOL_TOOLS
        )
        return (first, *tools), lacks_server

    def _waiting_for_trust(self) -> tuple[Issue, ...]:
        """The servers that would run if the user trusted them, where nothing does the same. Blocks."""
        kinds = [self._servers.find(kind.name) for kind in self._servers.known_kinds()]
        untrusted = [
            server for server in kinds if isinstance(server, Unavailable) and server.state == "untrusted"
        ]
        waiting = [server for server in untrusted if not server.specification.is_optional]
        running = [kind for kind in kinds if isinstance(kind, ServerSpecification) and not kind.limits]
        return tuple(
            Issue("warning", "trust", "TRUST_PENDING", f"Language server {server.reason}")
            for server in waiting
            if not any(_replaces(kind, server.specification) for kind in running)
        )

    def _set_issue(self, issue: Issue | None) -> None:
        if issue != self._issue:
            self._issue = issue
            self.notify_changed()


@dataclass(frozen=True, slots=True)
class _Installed:
    """The state of the folder in which `lmtb languages install` puts links to programs.

    Attributes:
        folder: where it is; None if its disk could hang, so that it is not looked at for a list.
        time: of its last change; None if it is not there.
    """

    folder: str | None = None
    time: int | None = None

    @classmethod
    def look(cls) -> _Installed:
        """Its state now. Blocks."""
        folder = programs_folder()
        return cls(folder, _time_of(folder)) if are_local([Path(folder)]) else cls()

    def has_changed(self) -> bool:
        """Whether something was installed or removed since. Takes microseconds."""
        return self.folder is not None and _time_of(self.folder) != self.time


def _time_of(folder: str) -> int | None:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116  before each list
    except OSError:
        return None


def _replaces(kind: ServerSpecification, other: ServerSpecification) -> bool:
    return bool(kind.languages.keys() & other.languages.keys()) and other.roles <= kind.roles


def _no_source(note: str) -> Issue:
    return Issue("warning", "source", "NO_DIAGNOSTICS_SOURCE", note, definitions.GET_DIAGNOSTICS.name)


def _members(server: ServerStatus) -> dict[str, Any]:
    members = {
        "name": server.name,
        "state": server.state,
        "pid": server.pid,
        "memoryMiB": None if server.memory_bytes is None else round(server.memory_bytes / _MIB, 1),
        "freshness": None if server.freshness is None else server.freshness.structured(),
        "openDocuments": server.open_documents,
        "restarts": server.restarts,
        "error": server.error,
        "errorAgeS": None if server.error_age_s is None else round(server.error_age_s),
        "version": server.version,
    }
    return {name: value for name, value in members.items() if value is not None}
