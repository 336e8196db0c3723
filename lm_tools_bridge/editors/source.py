"""Offers the tools of the VS Code window that has the project open, under their own names.

`window_watch.py` says which window that is. One that opens again, on whatever port, needs no handshake.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import structs

from lm_tools_bridge.editors import problems
from lm_tools_bridge.editors.finder import WindowFinder
from lm_tools_bridge.editors.window import Window
from lm_tools_bridge.editors.window_session import WindowPolicy, WindowSession
from lm_tools_bridge.editors.window_transport import WindowTransport
from lm_tools_bridge.editors.window_watch import WindowWatch
from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.issues import Issue
from lm_tools_bridge.protocol.names import Era
from workspace_server.call_context import CallContext
from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.lists.definitions import OTHER_KINDS, TOOLS
from workspace_server.sources.mcp.lists.server_lists import LIST_AGAIN_S
from workspace_server.sources.mcp.remote.failures import HttpFailure
from workspace_server.sources.mcp.session import Session
from workspace_server.sources.mcp.session_supervisor import SessionSupervisor
from workspace_server.sources.mcp.settings import SourceSettings
from workspace_server.sources.mcp.source import McpSource, T
from workspace_server.tool import SourceOfferings, Tool

NAME: Final = "vscode"
CALL_WAIT_S: Final = 4.5
"""How long a call waits for a session that is being opened, as for remote servers."""
PROBLEMS_S: Final = 10.0
"""How long the window may take to say which problems it shows."""
HANDSHAKE_S: Final = 10.0
"""A window that still starts its extensions answers within seconds; a call does not wait for it that long."""
MAX_WITHDRAWN: Final = 1000
"""Windows that come and go could add new names for ever."""


class EditorSource(McpSource):
    """The window of the project. While there is none, the source has no tools and is not shown."""

    def __init__(
        self,
        finder: WindowFinder,
        root: str,
        version: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Look for nothing yet.

        Args:
            finder: looks for windows; it blocks.
            root: absolute path of the workspace.
            version: of this product.
            clock: monotonic seconds.
        """
        settings = SourceSettings(NAME, bare=True, keywords=("vscode", "editor"))
        super().__init__("editor", settings, state="idle")
        self._watch = WindowWatch(finder, clock, self._replace, self._read_again)
        self._root = root
        self._version = version
        self._clock = clock
        self._supervisor: SessionSupervisor | None = None
        self._withdrawn: dict[str, None] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def window(self) -> Window | None:
        """The window in use."""
        return self._watch.window

    @property
    def is_shown(self) -> bool:
        """Whether there is a window, or was one."""
        return self.window is not None or self._watch.left is not None

    @property
    def sessions(self) -> Sequence[Session]:
        """The open session."""
        session = None if self._supervisor is None else self._supervisor.session
        return () if session is None else (session,)

    async def list_tools(self) -> Sequence[Tool]:
        """The tools of the window that is there now."""
        await self._watch.look()
        if self.window is None:
            return ()
        tools = self.lists.tools
        if tools.stale and time.monotonic() - tools.tried_at >= LIST_AGAIN_S:
            self.lists.request([TOOLS])
        if tools.stale:  # of another window, or of none
            await tools.settled.wait()
        return await super().list_tools() if self.window is not None else ()

    def cached_tools(self) -> Sequence[Tool] | None:
        """None if it is time to look for windows, or the tools of a new one are not read yet."""
        if self._watch.is_overdue:
            return None
        if self.window is None:
            self.known_until = asyncio.get_running_loop().time() + self._watch.rest_s
            return ()
        self.known_until = -math.inf
        return None if self.lists.tools.stale else super().cached_tools()

    def offerings(self) -> SourceOfferings:
        """Without the resources about its tools: ours say the same under the same addresses."""
        all_offerings = super().offerings()
        resources = tuple(
            entry for entry in all_offerings.resources if not entry.name.startswith(names.OWN_SCHEME)
        )
        templates = tuple(
            entry for entry in all_offerings.templates if not entry.name.startswith(names.OWN_SCHEME)
        )
        return SourceOfferings(all_offerings.prompts, resources, templates, all_offerings.skills)

    def withdrawn(self, name: str) -> str | None:
        """Why a tool that a window offered is not there now; None for any other name."""
        if self.window is not None or self._watch.left is None or name not in self._withdrawn:
            return None
        return f"{self._watch.left.label} has closed"

    async def problems(
        self, paths: Sequence[Path] | None
    ) -> Mapping[Path, Sequence[Mapping[str, Any]]] | None:
        """What the window shows as problems of these files, or of the project, as LSP diagnostics by file.

        None without a window, or if it does not say. Takes at most `PROBLEMS_S`, and never raises.
        """
        await self.list_tools()
        tool = next(
            (candidate for candidate in self.lists.tools.items or () if candidate.name == problems.TOOL), None
        )
        window = self.window
        if window is None or tool is None:
            return None
        tool_arguments = problems.arguments(tool.input_schema, paths)
        context = CallContext(arguments=jsonrpc.raw(tool_arguments))
        try:
            async with asyncio.timeout(PROBLEMS_S):
                outcome = await self.forward_call(problems.TOOL, context)
        except (Unavailable, TimeoutError):
            return None
        answer = problems.read(outcome) if isinstance(outcome, msgspec.Raw) else None
        if answer is None:
            return None
        real = await asyncio.to_thread(_by_real_path, answer)
        if window.above == 0 or paths is not None:
            return real
        return {path: items for path, items in real.items() if path.is_relative_to(self._root)}

    def refusal(self, failure: Unavailable) -> Refusal:
        """As `McpSource.refusal`; only the user can open a window."""
        refusal = super().refusal(failure)
        is_gone = self.window is None and refusal.delivered == "no"
        step = "ask the user to open the project in VS Code, then retry"
        return structs.replace(refusal, next_step=step) if is_gone else refusal

    async def reopen(self) -> str:
        """As `McpSource.reopen`; the window itself belongs to the user."""
        await self._watch.look(anew=True, everywhere=True)
        if self._supervisor is None:
            return "no window of VS Code has this project open"
        return f"the session with {_label(self.window)}: {await self._supervisor.restart()}"

    async def refresh(self) -> None:
        """Look for all windows, and read the lists again."""
        await self._watch.look(anew=True, everywhere=True)
        if self.window is not None:
            await super().refresh()

    def issues(self) -> Sequence[Issue]:
        """Also tools whose schema the window does not give."""
        issues = list(super().issues()) if self.window is not None else []
        for session in self.sessions:
            unread = session.unread_schemas if isinstance(session, WindowSession) else ()
            issues += [_unread(name, self.id) for name in unread]
        return issues

    def status(self) -> Mapping[str, Any]:
        """Adds the window, and others of the project that are not used."""
        window = self.window
        return {
            **super().status(),
            "window": None if window is None else window.label,
            "otherWindows": [other.label for other in self._watch.others],
        }

    async def close(self) -> None:
        """End the session and the search. The window is not touched."""
        await self.stop_asking()
        await self._watch.close()
        if self._supervisor is not None:
            await self._supervisor.close()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def with_session(self, ask: Callable[[Session], Awaitable[T]], caller: str | None) -> T:
        """As `McpSource.with_session`; once more if the window moved to another port meanwhile."""
        await self._watch.look()
        used = self._attached()
        try:
            return await self._ask(used, ask, caller)
        except HttpFailure as failure:
            await self._watch.look(anew=True)
            if self._supervisor is used:
                raise
            if failure.kind not in ("unreachable", "session_lost"):
                raise Unavailable(
                    f"{failure.text}: {_label(self._watch.left)} has closed", failure.delivered
                ) from None
        return await self._ask(self._attached(), ask, caller)

    async def _ask(
        self, supervisor: SessionSupervisor, ask: Callable[[Session], Awaitable[T]], caller: str | None
    ) -> T:
        async with supervisor.use(patiently=caller is None) as session:
            return await ask(session)

    def _attached(self) -> SessionSupervisor:
        if self._supervisor is not None:
            return self._supervisor
        if self._watch.left is not None:
            raise Unavailable(
                f"{_label(self._watch.left)} has closed; its tools are back when it is open again"
            )
        raise Unavailable("no window of VS Code has this project open")

    def _read_again(self) -> None:
        self.lists.request([TOOLS], again=True)

    def _replace(self, before: Window | None, window: Window | None) -> None:
        if self._supervisor is not None:
            self._drop(self._supervisor)
        if before is not None:
            self._withdraw()
        self._supervisor = None
        for server_list in self.lists.all:
            server_list.stale = True
        if window is None:
            self.set_state("idle", f"{before.label} has closed" if before is not None else None)
            return
        self._supervisor = self._supervised(window)
        self.lists.request((TOOLS, *OTHER_KINDS), again=True)

    def _withdraw(self) -> None:
        """Remember the names that calls may still use."""
        for tool in (self.lists.tools.items or ())[: MAX_WITHDRAWN - len(self._withdrawn)]:
            self._withdrawn[tool.name] = None

    def _drop(self, supervisor: SessionSupervisor) -> None:
        task = asyncio.create_task(supervisor.close(), name="close-window-session")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _supervised(self, window: Window) -> SessionSupervisor:
        return SessionSupervisor(
            partial(self._open, window),
            WindowPolicy(),
            self._session_became,
            source=self.id,
            revive=False,
            wait_s=CALL_WAIT_S,
            clock=self._clock,
        )

    async def _open(self, window: Window, on_end: Callable[[str], None]) -> Session:
        return await WindowSession.open(
            WindowTransport(window.port),
            source=self.id,
            root=self._root,
            timeout_s=HANDSHAKE_S,
            on_change=self.list_changed,
            on_update=self.resource_changed,
            on_end=on_end,
            version=self._version,
            junk=self.junk,
            first=Era.LEGACY,
        )

    def _session_became(self, state: Any, error: str | None) -> None:
        if self.window is not None:
            self.set_state(state, error)


def _by_real_path(items_by_path: Mapping[Path, Sequence[Mapping[str, Any]]]) -> Mapping[Path, Sequence[Any]]:
    return {Path(os.path.realpath(path)): items for path, items in items_by_path.items()}


def _label(window: Window | None) -> str:
    return "the window" if window is None else window.label


def _unread(name: str, source: str) -> Issue:
    text = f"The input schema of {name} cannot be read from the window; arguments are not checked"
    return Issue("warning", "schema", "SCHEMA_READ_FAILED", text, name, f"source {source}")
