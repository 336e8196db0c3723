"""A checker as a provider of diagnostics: one run for all callers, repeated when files have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.python_projects.libraries import without_unresolved
from lm_tools_bridge.code_intelligence.server import (
    DiagnosticsAnswer,
    PositionEncoding,
    ReportProgress,
    RequestFailed,
    ServerStatus,
)
from lm_tools_bridge.code_intelligence.server_process.launch import Launch
from lm_tools_bridge.code_intelligence.server_process.server_supervisor import USUAL_LIMITS
from lm_tools_bridge.code_intelligence.session.checker_outputs import OUTPUTS
from lm_tools_bridge.code_intelligence.session.checker_run import Result, check_project
from lm_tools_bridge.code_intelligence.specification import Check
from lm_tools_bridge.code_intelligence.tree.relevant_files import relevance_of
from lm_tools_bridge.code_intelligence.tree.tree_watch import TreeWatch, Watcher
from workspace_server import log

LOOK_S: Final = 10.0
"""A disk that takes longer hangs; the last result is then said to be stale."""
TELL_S: Final = 2.0
"""So often a caller that waits is told that the check goes on."""
MAX_RUNS: Final = 3
"""So often a check is repeated at once because files changed under it."""
_NOT_FOUND: Final = -32601
"""The code of JSON-RPC for an unknown method."""
_OLD: Final = "it checks the project again; these are of the check before the last change"


@dataclass(frozen=True, slots=True)
class _Known:
    """The last result, and which state of the files it is about."""

    epoch: int
    result: Result


class Checker:
    """A `LanguageServer` that knows nothing but diagnostics.

    Where nobody asks for as long as an idle server runs, it forgets the result and watches no files.

    Args:
        launch: the command, with the kind that has a `check`.
        check: that of the kind.
        watch: looks at the workspace's files.
    """

    encoding: PositionEncoding
    capabilities: Mapping[str, Any] = {}

    def __init__(self, launch: Launch, check: Check, watch: TreeWatch) -> None:
        self.specification = launch.specification
        self.launch = launch
        self.encoding = OUTPUTS[check.format].encoding
        self._check = check
        self._name = launch.specification.name
        self._watch = watch
        self._watcher: Watcher | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._resting: set[asyncio.Task[None]] = set()
        self._epoch = 0
        self._known: _Known | None = None
        self._running: asyncio.Task[None] | None = None
        self._trouble = ""
        self._is_cut = False
        self._is_closed = False

    def supports(self, method: str) -> bool:
        """It serves no request."""
        return False

    async def open(self, path: Path) -> Sequence[str]:
        """As `LanguageServer.open`: always refused."""
        raise RequestFailed(_NOT_FOUND, f"{self._name} opens no files")

    def aliases(self, path: Path) -> Sequence[Path]:
        """None: it names files as it finds them."""
        return ()

    def guessed_files(self, paths: Sequence[Path]) -> Sequence[Path]:
        """As `LanguageServer.guessed_files`: none."""
        return ()

    def memo(self, path: Path) -> dict[str, Any]:
        """As `LanguageServer.memo`: it has no open files."""
        return {}

    async def request(self, method: str, params: Any = None, *, timeout_s: float | None = None) -> Any:
        """As `LanguageServer.request`: always refused."""
        raise RequestFailed(_NOT_FOUND, f"{self._name} serves no {method}")

    async def tell_changes(self) -> None:
        """Look at the files: a result about older ones no longer counts."""
        if self._is_closed:  # a look would open what `close` gave back
            return
        watcher = self._used()
        try:
            async with asyncio.timeout(LOOK_S):
                look = await watcher.look()
        except (OSError, TimeoutError) as failure:
            self._trouble = f"the project's folder cannot be looked at: {failure or 'it does not answer'}"
            return
        self._trouble, self._is_cut = "", look.snapshot.is_cut
        if look.changes:
            self._epoch += 1
        watcher.accept(look)

    async def ready(self, wait_s: float, progress: ReportProgress | None = None) -> Freshness:
        """Wait for the check of the files as they are, at most so long. It goes on if that is too short."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while not (self._is_current or self._is_closed) and (left := until - loop.time()) > 0:
            await asyncio.wait({self._begin()}, timeout=min(left, TELL_S))
            if progress is not None and not self._is_current:
                await progress(0, None, "it checks the project")
        return self.freshness()

    async def diagnostics(self, paths: Sequence[Path] | None, wait_s: float) -> DiagnosticsAnswer:
        """As `LanguageServer.diagnostics`."""
        await self.tell_changes()
        freshness = await self.ready(wait_s)
        files = () if self._known is None else self._known.result.files
        chosen_paths = None if paths is None else frozenset(paths)
        chosen_files = [file for file in files if chosen_paths is None or file.path in chosen_paths]
        if unknown := self.specification.unknown_modules:
            chosen_files = without_unresolved(chosen_files, unknown)
        return DiagnosticsAnswer(chosen_files, freshness)

    def freshness(self) -> Freshness:
        """How far the last result can be trusted."""
        if self._known is None:
            return Freshness(self._name, "indexing", "it checks the project; nothing is known yet")
        if self._trouble:
            return Freshness(self._name, "stale", self._trouble)
        if not self._is_current:
            return Freshness(self._name, "stale", _OLD)
        freshness = self._known.result.freshness
        if freshness.state == "fresh" and (gap := self.specification.doubt):
            return Freshness(self._name, "partial", gap)
        if freshness.state == "fresh" and self._is_cut:
            reason = "the project has more files than are looked at; changes of the others are not noticed"
            return Freshness(self._name, "partial", reason)
        return freshness

    def status(self) -> ServerStatus:
        """Where it stands."""
        state = "ready" if self._running is not None else "idle"
        freshness = None if self._known is None else self.freshness()
        return ServerStatus(self._name, state, freshness=freshness)

    async def close(self) -> None:
        """End a check that runs, and begin no other."""
        self._is_closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        self._rest()
        await asyncio.gather(*self._resting)

    @property
    def _is_current(self) -> bool:
        return self._known is not None and self._known.epoch == self._epoch

    def _used(self) -> Watcher:
        """The watcher, from now on for as long as an idle server runs."""
        if self._idle is not None:
            self._idle.cancel()
        idle_s = self.launch.idle_s or USUAL_LIMITS.idle_s
        self._idle = asyncio.get_running_loop().call_later(idle_s, self._rest)
        if self._watcher is None:
            self._watcher = self._watch.watcher(relevance_of(self.specification))
        return self._watcher

    def _rest(self) -> None:
        """Forget the result, and give the watches of the files back; the next caller begins anew."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._running is not None:
            self._used()
        elif self._watcher is not None:
            task = asyncio.create_task(self._watcher.close(), name=f"rest-{self._name}")
            self._watcher, self._known = None, None
            self._resting.add(task)
            task.add_done_callback(self._resting.discard)

    def _begin(self) -> asyncio.Task[None]:
        """The check under way, or a new one."""
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name=f"check-{self._name}")
        return self._running

    async def _checked(self) -> Result:
        """What a run finds; a fault of ours is told, and does not start the program again and again."""
        try:
            return await check_project(self.launch, self._check)
        except Exception as fault:  # noqa: BLE001  the next change of a file begins another run
            log.fault("check_failed", fault)
            reason = "its output could not be read; lmtb logs says why"
            return Result((), Freshness(self._name, "crashed", reason))

    async def _run(self) -> None:
        try:
            for _ in range(MAX_RUNS):
                await self.tell_changes()
                epoch = self._epoch
                self._known = _Known(epoch, await self._checked())
                await self.tell_changes()  # a run that files changed under is about neither state
                if self._is_current:
                    return
        finally:
            self._running = None
