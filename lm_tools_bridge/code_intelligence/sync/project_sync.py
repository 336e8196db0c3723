"""Keeps one server's picture of the project up to date: the part that makes its answers true."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.diagnostics.file_diagnostics import DiagnosticsOfFiles
from lm_tools_bridge.code_intelligence.diagnostics.project_diagnostics import DiagnosticsOfProject
from lm_tools_bridge.code_intelligence.diagnostics.publications import Publications
from lm_tools_bridge.code_intelligence.freshness import Freshness, worst
from lm_tools_bridge.code_intelligence.library_folders import InstalledLibraries
from lm_tools_bridge.code_intelligence.peer import MakeSync, Peer
from lm_tools_bridge.code_intelligence.python_projects.libraries import without_unresolved
from lm_tools_bridge.code_intelligence.server import DiagnosticsAnswer, ReportProgress
from lm_tools_bridge.code_intelligence.sync.change_notice import (
    REREAD_S,
    ChangeNotice,
    OpenDocumentsNotice,
    WatchedFilesNotice,
)
from lm_tools_bridge.code_intelligence.sync.project_definition import ProjectDefinition
from lm_tools_bridge.code_intelligence.sync.readiness import Readiness
from lm_tools_bridge.code_intelligence.sync.unusual_texts import UnusualTexts
from lm_tools_bridge.code_intelligence.tree.documents import Document, OpenDocuments, is_source
from lm_tools_bridge.code_intelligence.tree.relevant_files import relevance_of, relevance_of_watchers
from lm_tools_bridge.code_intelligence.tree.tree_changes import Changes, Snapshot
from lm_tools_bridge.code_intelligence.tree.tree_watch import Look, TreeWatch
from workspace_server.files.single_flight import SharedRun

WATCHED: Final = "workspace/didChangeWatchedFiles"
LOOK_S: Final = 10.0
"""A disk that takes longer hangs; answers are then said to be stale."""
TAKE_IN_S: Final = 10.0
"""So long an answer waits for files that clangd reads; the rest is told in its freshness."""
POLL_S: Final = 0.2
"""A server's progress is told to the caller this often at most, and its end is noticed as soon."""


MAX_TOLD: Final = 1_000
"""Changed files that are remembered for `changed_files`: an agent writes tens between two calls."""


class FollowedProject:
    """A `ProjectSync`: looks, tells, waits; then says how far answers can be trusted."""

    def __init__(
        self, peer: Peer, watch: TreeWatch, *, take_in_s: float = TAKE_IN_S, reread_s: float = REREAD_S
    ) -> None:
        self._peer = peer
        self._name = peer.specification.name
        self._loop = asyncio.get_running_loop()
        self._take_in_s, self._reread_s = take_in_s, reread_s
        self._publications = Publications()
        self._documents = OpenDocuments(peer, lambda: self._publications.last_number)
        self._readiness = Readiness(peer.specification, self._loop.time())
        self._definition = ProjectDefinition(peer.specification, peer.folders)
        self._libraries = InstalledLibraries(peer.specification, peer.folders, self._loop.time())
        self._unusual = UnusualTexts(peer, self._documents)
        self._notice = self._make_notice()
        self._files = DiagnosticsOfFiles(peer, self._documents, self._publications)
        self._project = DiagnosticsOfProject(peer, self._documents, self._publications, self._files)
        self._relevance = relevance_of(peer.specification)
        self._watcher = watch.watcher(self._relevance)
        self._snapshot: Snapshot | None = None
        self._trouble = ""
        self._told_times = 0
        self._told_files: deque[tuple[int, Path]] = deque(maxlen=MAX_TOLD)
        self._telling = SharedRun(self._tell)
        self._registered: Sequence[Mapping[str, Any]] = ()
        # before the server reads the project: a change between its look and ours must not be lost
        self._first_look = asyncio.create_task(self._look_first(), name=f"first-look-{self._name}")

    def _make_notice(self) -> ChangeNotice:
        if self._peer.specification.changes == "open-documents":
            return OpenDocumentsNotice(
                self._peer, self._documents, self._publications, reread_s=self._reread_s
            )
        return WatchedFilesNotice(self._peer, self._documents)

    @property
    def open_documents(self) -> int:
        """How many files are open in the server."""
        return len(self._documents)

    async def begin(self) -> None:
        """As `ProjectSync.begin`."""
        self._readiness.note_request(self._loop.time())

    def take_notification(self, method: str, params: Any) -> None:
        """As `ProjectSync.take_notification`."""
        if method == "textDocument/publishDiagnostics":
            self._publications.published(params, self._loop.time())
        elif method == "textDocument/clangd.fileStatus":
            self._publications.status_reported(params)
        else:
            if method == "$/progress":
                self._project.progressed(params)
            self._readiness.take_notification(method, params, self._loop.time())

    def take_refresh(self, method: str) -> None:
        """As `ProjectSync.take_refresh`."""
        if method == "workspace/diagnostic/refresh":
            self._files.forget_results()

    async def tell_changes(self) -> None:
        """As `ProjectSync.tell_changes`. Callers at the same time share a run that begins after they call."""
        if pause := await self._libraries.look(self._loop.time()):
            await asyncio.sleep(pause)
            await self._libraries.look(self._loop.time())
        if not self._is_told():
            await self._telling.get()
        await self._unusual.keep_open()

    async def open(self, path: Path) -> Sequence[str]:
        """As `LanguageServer.open`."""
        return (await self._open(path)).lines

    def memo(self, path: Path) -> dict[str, Any]:
        """As `LanguageServer.memo`."""
        document = self._documents.get(path)
        if document is None or self.freshness().state not in {"fresh", "partial"}:
            return {}
        if document.memo.get("epoch") != self._documents.epoch:
            document.memo = {"epoch": self._documents.epoch}
        return document.memo

    async def ready(self, wait_s: float, progress: ReportProgress | None = None) -> Freshness:
        """As `LanguageServer.ready`."""
        deadline = self._loop.time() + wait_s
        await self._give_first_file()
        await self._notice.caught_up(deadline - self._loop.time())
        reported_state: Freshness | None = None
        while (state := self.freshness()).state in {"indexing", "stale"}:
            now = self._loop.time()
            if now >= deadline:
                break
            if progress is not None and state != reported_state:
                await progress(state.done or 0, state.total, state.text())
                reported_state = state
            turn = self._readiness.changes_at(now) or deadline
            await asyncio.sleep(max(0.0, min(POLL_S, deadline - now, max(turn - now, 0.01))))
        return state

    async def diagnostics(self, paths: Sequence[Path] | None, wait_s: float) -> DiagnosticsAnswer:
        """As `LanguageServer.diagnostics`."""
        answer = await self._diagnostics(paths, wait_s)
        kind = self._peer.specification
        if kind.unknown_modules:
            files = without_unresolved(answer.files, kind.unknown_modules)
            answer = replace(answer, files=files)
        limits = kind.diagnostic_limits
        if limits and answer.freshness.state == "fresh":
            return replace(answer, freshness=Freshness(self._name, "partial", limits))
        return answer

    async def _diagnostics(self, paths: Sequence[Path] | None, wait_s: float) -> DiagnosticsAnswer:
        deadline = self._loop.time() + wait_s
        await self._notice.caught_up(wait_s)
        if paths is None:
            await self.ready(deadline - self._loop.time())
            answer = await self._project.of_project(deadline)
            checked = self._peer.specification.checked_files
            files = [file for file in answer.files if checked is None or checked.has(file.path)]
            freshness = self._limited(answer.freshness, self.freshness())
            return DiagnosticsAnswer(files, freshness, answer.is_whole)
        stale = self._stale()
        answer = await self._project.of_files(paths, deadline)
        freshness = self._limited(answer.freshness, stale, self._stale())
        if freshness.state == "fresh" and (doubt := self._definition.doubt(answer.files)):
            freshness = Freshness(self._name, "unknown", doubt)
        return DiagnosticsAnswer(answer.files, freshness)

    def freshness(self) -> Freshness:
        """As `ProjectSync.freshness`: how far answers about the whole project can be trusted now."""
        readiness = self._readiness.state(self._loop.time())
        if readiness.state == "fresh" and (missing := self._definition.missing()):
            readiness = Freshness(self._name, "partial", missing)
        return self._limited(readiness, self._stale())

    def _limited(self, freshness: Freshness, *others: Freshness | None) -> Freshness:
        parts = [freshness, *(other for other in others if other is not None)]
        limiting = worst(parts) or freshness
        limits = self._peer.specification.limits
        if limiting.state in {"fresh", "partial"} and (broken := self._definition.broken):
            return Freshness(self._name, "partial", broken)
        lack = limits or self._peer.specification.doubt or self._unusual.left_out()
        if limiting.state == "fresh" and lack:
            return Freshness(self._name, "partial", lack)
        if limiting.state == "fresh" and self._snapshot is not None and self._snapshot.is_cut:
            reason = "the project has more files than are looked at; changes of the others are not noticed"
            return Freshness(self._name, "partial", reason)
        return limiting

    def _stale(self) -> Freshness | None:
        if self._trouble:
            return Freshness(self._name, "stale", self._trouble)
        if count := self._notice.lagging():
            return Freshness(self._name, "stale", f"it has not taken in {count} changes on disk yet")
        return None

    async def close(self) -> None:
        """As `ProjectSync.close`."""
        self._first_look.cancel()
        self._telling.cancel()
        await self._notice.close()
        await asyncio.gather(self._first_look, return_exceptions=True)
        await self._telling.close()
        await self._watcher.close()

    async def _open(self, path: Path) -> Document:
        if not len(self._documents):
            self._readiness.note_request(self._loop.time())
        return await self._documents.open(path)

    async def _look_first(self) -> None:
        await self._libraries.look(self._loop.time())
        with suppress(OSError):
            look = await self._watcher.look()
            await self._definition.look(look.snapshot, None)
            await self._unusual.look(look.snapshot, None)
            self._take(look)

    def _take(self, look: Look) -> None:
        self._watcher.accept(look)
        self._snapshot = look.snapshot

    def _is_told(self) -> bool:
        """Whether it is proven, without waiting, that the server knows of all changes and took them in."""
        return (
            self._snapshot is not None
            and not (self._trouble or self._telling.is_running or self._notice.lagging())
            and self._peer.registrations(WATCHED) == self._registered
            and self._documents.are_in(self._snapshot.files)
            and self._watcher.is_current()
        )

    async def _tell(self) -> None:
        await asyncio.wait({self._first_look}, timeout=LOOK_S)
        self._registered = self._peer.registrations(WATCHED)
        self._watcher.include(relevance_of_watchers(self._registered))
        try:
            async with asyncio.timeout(LOOK_S):
                look = await self._watcher.look()
        except TimeoutError:
            self._trouble = f"the project's folder did not answer within {LOOK_S:g} s; changes may be unknown"
            return
        except OSError as failure:
            self._trouble = f"the project's folder cannot be looked at: {failure.strerror or failure}"
            return
        self._trouble = ""
        # a file that was created, opened and deleted between two looks was in neither; others lie elsewhere
        more = await self._documents.changed_on_disk(look.snapshot.files)
        deleted = set(look.changes.deleted)
        changes = look.changes.with_files(more[0], (path for path in more[1] if path not in deleted))
        if self._peer.specification.changes == "watched-files" and (look.snapshot.links or self._links()):
            changes = changes.with_aliases(self._snapshot or look.snapshot, look.snapshot)
        if changes:
            self._definition.refuse_new(changes)
            await self._definition.look(look.snapshot, changes)
            await self._unusual.look(look.snapshot, changes)
            await self._tell_of(changes)
        self._take(look)
        await self._notice.caught_up(self._take_in_s)

    def _links(self) -> Mapping[str, str]:
        """The links to folders at the look before."""
        return {} if self._snapshot is None else self._snapshot.links

    def aliases(self, path: Path) -> Sequence[Path]:
        """As `LanguageServer.aliases`."""
        if self._snapshot is None or self._peer.specification.changes != "watched-files":
            return ()
        return [Path(alias) for alias in self._snapshot.aliases(str(path))] if self._snapshot.links else ()

    def changed_files(self, since: int) -> tuple[int, Sequence[Path]]:
        """As `FollowingServer.changed_files`; of very many, the last."""
        return self._told_times, list(dict.fromkeys(path for time, path in self._told_files if time > since))

    def guessed_files(self, paths: Sequence[Path]) -> Sequence[Path]:
        """As `LanguageServer.guessed_files`."""
        return [path for path in paths if not self._definition.describes(path)]

    async def _tell_of(self, changes: Changes) -> None:
        self._documents.epoch += 1
        self._told_times += 1
        own = (Path(file) for file in (*changes.created, *changes.changed))
        kind = self._peer.specification
        self._told_files.extend((self._told_times, path) for path in own if is_source(path, kind))
        is_configuration = changes.touches(self._relevance.names)
        if is_configuration:
            self._readiness.reconfigured(self._loop.time())
        await self._notice.tell(changes)
        if changes.created or is_configuration or (kind.opens_changed and changes.deleted):
            await asyncio.sleep(kind.grace_s)

    async def _give_first_file(self) -> None:
        """Some servers begin to read the project when they are given a file."""
        if len(self._documents) or self._peer.specification.ready == "first-answer":
            return
        await asyncio.wait({self._first_look}, timeout=LOOK_S)
        files = () if self._snapshot is None else self._snapshot.files
        sources = (Path(file) for file in files if is_source(Path(file), self._peer.specification))
        first = min(
            sources, key=lambda path: (path.suffix.startswith(".h"), len(path.parts), str(path)), default=None
        )
        if first is not None:
            with suppress(OSError):
                await self._open(first)


def make_sync(folders: Sequence[Path]) -> MakeSync:
    """What follows the project for each server of a workspace; they share their looks at these folders."""
    return sync_by(TreeWatch(folders))


def sync_by(watch: TreeWatch) -> MakeSync:
    """The same, with looks that are shared with others."""
    return lambda peer: FollowedProject(peer, watch)
