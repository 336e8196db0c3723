"""Runs one language server: starts and initializes it, sends requests, notices that it hangs, and ends it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.peer import MakeSync
from lm_tools_bridge.code_intelligence.server import (
    DiagnosticsAnswer,
    PositionEncoding,
    ReportProgress,
    RequestFailed,
    RequestTimedOut,
    ServerGone,
)
from lm_tools_bridge.code_intelligence.server_process.client_capabilities import initialize_params
from lm_tools_bridge.code_intelligence.server_process.fence import Fence
from lm_tools_bridge.code_intelligence.server_process.hang_check import HangCheck
from lm_tools_bridge.code_intelligence.server_process.launch import USUAL, Launch, Timeouts
from lm_tools_bridge.code_intelligence.server_process.server_capabilities import (
    ServerCapabilities,
    version_in,
)
from lm_tools_bridge.code_intelligence.server_process.server_requests import ServerRequests
from lm_tools_bridge.code_intelligence.wire.connection import Connection
from workspace_server import log
from workspace_server.processes.child_process import ChildProcess, ChildStartError

_BUSY: Final = frozenset({-32801, -32802})
"""Content modified, server cancelled: the same request succeeds once the server has taken in a change."""
_FIRST_PAUSE_S: Final = 0.05
"""A server that is busy with a change takes it in within milliseconds, mostly."""
_LONGEST_PAUSE_S: Final = 1.0
"""The pause doubles up to here, so that a long change costs few requests."""


class RunningServer:
    """One initialized server: a `LanguageServer`, and the `Peer` of the part that follows the project.

    Make it with `start`. The caller must call `close` in the end, also if the server ended by itself.

    Attributes:
        specification, folders: what it was started with.
        pid: of its process.
        version: as it called itself, if it did.
        last_used: when it was last asked something, in seconds of the event loop's clock.
    """

    def __init__(
        self,
        launch: Launch,
        child: ChildProcess,
        make_sync: MakeSync,
        on_end: Callable[[str], None],
        timeouts: Timeouts,
    ) -> None:
        self.specification = launch.specification
        self.folders: Sequence[Path] = launch.folders
        self.pid = child.pid
        self.version: str | None = None
        self._launch = launch
        self._fence = Fence()
        self._timeouts = timeouts
        self._offered = ServerCapabilities(None)
        self._sync = make_sync(self)
        settings = launch.specification.settings
        requests = ServerRequests(settings, launch.folders, lambda: self._offered, self._sync.take_refresh)
        self._connection = Connection(
            child,
            launch.specification.name,
            on_notification=self._sync.take_notification,
            on_request=requests.answer,
            on_end=on_end,
            write_s=timeouts.write_s,
            hidden=launch.hidden,
        )
        self._loop = asyncio.get_running_loop()
        self.last_used = self._loop.time()
        self._hang_check = HangCheck(self._connection, child.pid, timeouts)
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        launch: Launch,
        make_sync: MakeSync,
        *,
        on_end: Callable[[str], None] = lambda reason: None,
        timeouts: Timeouts = USUAL,
    ) -> RunningServer:
        """Start the process and initialize the server. Call it from the main thread.

        Args:
            launch: what to start.
            make_sync: makes the part that keeps its picture of the project up to date.
            on_end: called once with the reason when it ends by itself or hangs.
            timeouts: time limits.

        Raises:
            ServerGone: it cannot be started, or did not initialize. No process remains.
        """
        name = launch.specification.name
        fence = Fence()
        try:
            command = await asyncio.to_thread(fence.around, launch) if launch.is_fenced else launch.command
            child = await ChildProcess.start(command, name=f"language server {name}")
        except (ChildStartError, OSError) as failure:
            await asyncio.to_thread(fence.remove)
            raise ServerGone(f"{name} does not start: {failure}") from None
        server = cls(launch, child, make_sync, on_end, timeouts)
        server._fence = fence
        try:
            await server._initialize()
        except BaseException:
            await server.close(polite=False)
            raise
        return server

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """As `LanguageServer.capabilities`."""
        return self._offered.current

    @property
    def encoding(self) -> PositionEncoding:
        """As `LanguageServer.encoding`."""
        return self._offered.encoding

    @property
    def ended(self) -> str | None:
        """Why it ended, for a person; None while it runs."""
        return self._connection.ended

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answers."""
        return self._connection.in_flight

    @property
    def open_documents(self) -> int:
        """How many files are open in it."""
        return self._sync.open_documents

    def freshness(self) -> Freshness | None:
        """How far its answers are, without asking it; None if nothing is known yet."""
        return self._sync.freshness() if self.ended is None else self._crashed()

    def supports(self, method: str) -> bool:
        """As `LanguageServer.supports`."""
        return self._offered.supports(method)

    def registrations(self, method: str) -> Sequence[Mapping[str, Any]]:
        """As `Peer.registrations`."""
        return self._offered.registrations(method)

    async def request(self, method: str, params: Any = None, *, timeout_s: float | None = None) -> Any:
        """As `LanguageServer.request`. A server that does not answer is pinged; if it hangs, it ends."""
        self.last_used = self._loop.time()
        limit = self._timeouts.request_s if timeout_s is None else timeout_s
        deadline = self._loop.time() + limit
        pause = _FIRST_PAUSE_S
        while True:
            sent_at = self._loop.time()
            try:
                return await self._connection.request(method, params, timeout_s=max(0.0, deadline - sent_at))
            except RequestTimedOut:
                self._hang_check.given_up(sent_at)
                name = self.specification.name
                raise RequestTimedOut(f"{name} did not answer {method} within {limit:g} s") from None
            except RequestFailed as failure:
                if failure.code not in _BUSY or self._loop.time() + pause >= deadline:
                    raise
            finally:
                self.last_used = self._loop.time()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def notify(self, method: str, params: Any = None) -> None:
        """As `Peer.notify`."""
        await self._connection.notify(method, params)

    async def tell_changes(self) -> None:
        """Look at the tree, and tell the server what changed on disk."""
        self.last_used = self._loop.time()
        await self._sync.tell_changes()

    async def open(self, path: Path) -> Sequence[str]:
        """As `LanguageServer.open`."""
        return await self._sync.open(path)

    def memo(self, path: Path) -> dict[str, Any]:
        """As `LanguageServer.memo`."""
        return self._sync.memo(path)

    def changed_files(self, since: int) -> tuple[int, Sequence[Path]]:
        """As `FollowingServer.changed_files`."""
        return self._sync.changed_files(since)

    def aliases(self, path: Path) -> Sequence[Path]:
        """As `LanguageServer.aliases`."""
        return self._sync.aliases(path)

    def guessed_files(self, paths: Sequence[Path]) -> Sequence[Path]:
        """As `LanguageServer.guessed_files`."""
        return self._sync.guessed_files(paths)

    async def ready(self, wait_s: float, progress: ReportProgress | None = None) -> Freshness:
        """As `LanguageServer.ready`; never fails."""
        try:
            if self.ended is None:
                return await self._sync.ready(wait_s, progress)
        except (ServerGone, RequestFailed, RequestTimedOut) as failure:
            if self.ended is None:
                return Freshness(self.specification.name, "unknown", str(failure))
        return self._crashed()

    async def diagnostics(self, paths: Sequence[Path] | None, wait_s: float) -> DiagnosticsAnswer:
        """As `LanguageServer.diagnostics`; never fails."""
        try:
            if self.ended is None:
                return await self._sync.diagnostics(paths, wait_s)
        except (ServerGone, RequestFailed, RequestTimedOut) as failure:
            if self.ended is None:
                return DiagnosticsAnswer([], Freshness(self.specification.name, "unknown", str(failure)))
        return DiagnosticsAnswer([], self._crashed())

    def fail(self, reason: str) -> None:
        """End it for this reason, as if it had ended by itself. The caller must still `close` it."""
        self._connection.fail(reason)

    async def close(self, *, polite: bool = True) -> None:
        """End the server and everything it started. Idempotent.

        Args:
            polite: ask it to shut down first.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._end(polite), name=f"end-{self.specification.name}")
        try:
            await asyncio.shield(self._closing)
        except asyncio.CancelledError:
            self._closing.cancel()
            await asyncio.gather(self._closing, return_exceptions=True)
            raise

    async def _initialize(self) -> None:
        launch = self._launch
        # behind a fence it may not signal us, and servers take that for our end; the kernel ends it with us
        parent = None if launch.is_fenced else os.getpid()
        params = initialize_params(self.specification, launch.folders, launch.version, parent)
        name = self.specification.name
        try:
            result = await self._connection.request("initialize", params, timeout_s=self._timeouts.start_s)
            self._offered = ServerCapabilities(result)
            self.version = version_in(result)
            await self._connection.notify("initialized", {})
            if self.specification.settings:
                settings = {"settings": self.specification.settings}
                await self._connection.notify("workspace/didChangeConfiguration", settings)
            await self._sync.begin()
        except RequestTimedOut:
            raise ServerGone(f"{name} did not initialize within {self._timeouts.start_s:g} s") from None
        except RequestFailed as failure:
            raise ServerGone(f"{name} refused to initialize: {failure.message}") from None

    def _crashed(self) -> Freshness:
        return Freshness(self.specification.name, "crashed", f"it {self.ended}")

    async def _end(self, polite: bool) -> None:
        until = self._loop.time() + self._timeouts.polite_s
        try:
            self._hang_check.stop()
            if polite and self.ended is None:
                await self._shut_down()
            await self._close_sync()
        except asyncio.CancelledError:
            polite = False
            raise
        finally:
            left = max(0.0, until - self._loop.time()) if polite and self.ended is None else 0.0
            await self._connection.close(polite_s=left, term_s=self._timeouts.term_s)
            await asyncio.to_thread(self._fence.remove)

    async def _shut_down(self) -> None:
        with suppress(RequestFailed, RequestTimedOut, ServerGone, TimeoutError):
            async with asyncio.timeout(self._timeouts.polite_s):
                await self._connection.request("shutdown", timeout_s=self._timeouts.polite_s)
                await self._connection.notify("exit")

    async def _close_sync(self) -> None:
        try:
            await self._sync.close()
        except Exception as fault:  # noqa: BLE001  the process must end whatever goes wrong
            log.fault("language_server_sync_failed", fault, server=self.specification.name)
