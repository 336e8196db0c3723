"""Gets the diagnostics of several files, or of all that a server knows, and says how complete they are."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.diagnostics.diagnostic_reports import Report, workspace_reports
from lm_tools_bridge.code_intelligence.diagnostics.file_diagnostics import Answer, DiagnosticsOfFiles
from lm_tools_bridge.code_intelligence.diagnostics.publications import Publications
from lm_tools_bridge.code_intelligence.freshness import Freshness, worst
from lm_tools_bridge.code_intelligence.peer import Peer
from lm_tools_bridge.code_intelligence.server import (
    DiagnosticsAnswer,
    FileDiagnostics,
    RequestFailed,
    RequestTimedOut,
)
from lm_tools_bridge.code_intelligence.tree import disk_text
from lm_tools_bridge.code_intelligence.tree.documents import OpenDocuments

AT_ONCE: Final = 8
"""Less than may be open at the same time, so that none is closed before it was checked."""
WORKSPACE: Final = "workspace/diagnostic"
TOKEN: Final = "lm-tools-bridge/check/"  # noqa: S105  of a progress
HELD_S: Final = 1.0
"""A report that has items follows the end of its progress at once; after so many seconds it is held back."""


class DiagnosticsOfProject:
    """The diagnostics of one server for many files."""

    def __init__(
        self, peer: Peer, documents: OpenDocuments, publications: Publications, files: DiagnosticsOfFiles
    ) -> None:
        self._peer = peer
        self._name = peer.specification.name
        self._documents = documents
        self._publications = publications
        self._files = files
        self._held = HeldReports(peer)

    def progressed(self, params: Any) -> None:
        """The server sent a `$/progress`."""
        self._held.take_progress(params)

    async def of_files(self, paths: Sequence[Path], deadline: float) -> DiagnosticsAnswer:
        """The diagnostics of these files; the freshness is that of the worst, with how many are fresh."""
        free = asyncio.Semaphore(AT_ONCE)

        async def ask_in_turn(path: Path) -> Answer:
            async with free:
                return await self._files.of_file(path, deadline)

        answers = await asyncio.gather(*(ask_in_turn(path) for path in paths))
        return DiagnosticsAnswer(
            [file for file, _ in answers], self._summary([freshness for _, freshness in answers])
        )

    async def of_project(self, deadline: float) -> DiagnosticsAnswer:
        """The diagnostics of all files that the server can speak about."""
        if self._peer.supports(WORKSPACE):
            answer = await self._ask_for_all(deadline)
            if answer is not None:
                return answer
        answer = await self.of_files(self._documents.paths(), deadline)
        others = await asyncio.to_thread(self._published, frozenset(self._documents.paths()))
        files = [*answer.files, *others]
        if answer.freshness.state != "fresh":
            return DiagnosticsAnswer(files, answer.freshness)
        reason = f"it checked only the {len(files)} files that are open in it or that it chose"
        return DiagnosticsAnswer(files, Freshness(self._name, "partial", reason))

    def _summary(self, parts: Sequence[Freshness]) -> Freshness:
        limiting = worst(parts) or Freshness(self._name, "fresh")
        fresh = sum(part.state == "fresh" for part in parts)
        if limiting.state == "fresh" or len(parts) == 1:
            return next((part for part in parts if part.reason), limiting)
        return Freshness(self._name, limiting.state, limiting.reason, fresh, len(parts))

    async def _ask_for_all(self, deadline: float) -> DiagnosticsAnswer | None:
        """The answer to `workspace/diagnostic`; None if it does not answer: some never do."""
        left_s = max(0.01, deadline - asyncio.get_running_loop().time())
        params: dict[str, Any] = {"previousResultIds": []}
        provider = self._peer.capabilities.get("diagnosticProvider")
        if isinstance(provider, Mapping) and isinstance(provider.get("identifier"), str):
            params["identifier"] = provider["identifier"]
        try:
            answer = await self._report(params, left_s / 2)
        except (RequestFailed, RequestTimedOut):
            return None
        reports = workspace_reports(answer)
        if reports is None:
            return None
        files = await asyncio.to_thread(_with_lines, reports)
        return DiagnosticsAnswer(files, Freshness(self._name, "fresh"), is_whole=True)

    async def _report(self, params: Mapping[str, Any], timeout_s: float) -> Any:
        if self._peer.specification.holds_empty_reports:
            return await self._held.ask(params, timeout_s)
        return await self._peer.request(WORKSPACE, params, timeout_s=timeout_s)

    def _published(self, open_paths: frozenset[Path]) -> list[FileDiagnostics]:
        """What it published for files that are not open, such as those that depend on open ones. Blocks."""
        reports = {}
        for path in self._publications.paths():
            publication = self._publications.get(path)
            if publication is not None and path not in open_paths and path.exists():
                reports[path] = Report(publication.diagnostics)
        return _with_lines(reports)


def _with_lines(reports: Mapping[Path, Report]) -> list[FileDiagnostics]:
    """The reports with the text of the files that have diagnostics. Blocks."""
    return [
        FileDiagnostics(path, _lines(path) if report.items else None, report.items or ())
        for path, report in reports.items()
    ]


def _lines(path: Path) -> Sequence[str] | None:
    try:
        return disk_text.read_file(path).lines()
    except OSError:
        return None


class HeldReports:
    """The requests `workspace/diagnostic` to one server, and the progress of each."""

    def __init__(self, peer: Peer, held_s: float = HELD_S) -> None:
        self._peer = peer
        self._held_s = held_s
        self._numbers = itertools.count(1)
        self._ended: dict[str, asyncio.Event] = {}

    def take_progress(self, params: Any) -> None:
        """Take a `$/progress`; those of others are ignored."""
        token = params.get("token") if isinstance(params, Mapping) else None
        if not isinstance(token, str) or token not in self._ended:
            return
        value = params.get("value")
        if isinstance(value, Mapping) and value.get("kind") == "end":
            self._ended[token].set()

    async def ask(self, params: Mapping[str, Any], timeout_s: float) -> Any:
        """The server's report; an empty one if it ended the check's progress and then holds the report back.

        Raises:
            RequestFailed, RequestTimedOut, ServerGone: as `Peer.request`.
        """
        token = f"{TOKEN}{next(self._numbers)}"
        ended = self._ended[token] = asyncio.Event()
        request = self._peer.request(WORKSPACE, {**params, "workDoneToken": token}, timeout_s=timeout_s)
        asking = asyncio.create_task(request, name="workspace-diagnostic")
        waiting = asyncio.create_task(ended.wait(), name="check-progress")
        try:
            await asyncio.wait({asking, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                await asyncio.wait({asking}, timeout=self._held_s)
            return asking.result() if asking.done() else {"items": []}
        finally:
            del self._ended[token]
            asking.cancel()  # which cancels the request at the server, too
            waiting.cancel()
            await asyncio.gather(asking, waiting, return_exceptions=True)
