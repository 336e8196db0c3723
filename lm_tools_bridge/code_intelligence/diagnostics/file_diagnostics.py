"""Gets one file's diagnostics from a server, published or asked for, and says how far they can be trusted."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.diagnostics import tsserver_diagnostics
from lm_tools_bridge.code_intelligence.diagnostics.diagnostic_reports import (
    Report,
    read_report,
    related_reports,
)
from lm_tools_bridge.code_intelligence.diagnostics.publications import Publication, Publications
from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.peer import Peer
from lm_tools_bridge.code_intelligence.server import FileDiagnostics, RequestFailed, RequestTimedOut
from lm_tools_bridge.code_intelligence.tree import disk_text
from lm_tools_bridge.code_intelligence.tree.documents import Document, OpenDocuments

PULL: Final = "textDocument/diagnostic"
SETTLES_S: Final = 0.5
"""Where a version may be published more than once, the last word was said if no more is said for so long."""
POLL_S: Final = 0.05
"""Nothing tells when a server begins to offer pulled diagnostics; a caller does not notice this pause."""
MAX_RESULTS: Final = 500
"""Files whose last result is remembered: more than may be open, each result with all its diagnostics."""
_ATTEMPTS: Final = 4
"""A file that changes while it is checked is checked again; who writes on gets an answer that says so."""

Answer = tuple[FileDiagnostics, Freshness]


@dataclass(frozen=True, slots=True)
class _Result:
    """The last full answer about a file, which a later `unchanged` refers to."""

    result_id: str
    items: Sequence[Mapping[str, Any]]


class DiagnosticsOfFiles:
    """The diagnostics of single files of one server."""

    def __init__(self, peer: Peer, documents: OpenDocuments, publications: Publications) -> None:
        self._peer = peer
        self._name = peer.specification.name
        self._documents = documents
        self._publications = publications
        self._results: OrderedDict[Path, _Result] = OrderedDict()

    async def of_file(self, path: Path, deadline: float) -> Answer:
        """The file's diagnostics, and whether they are about the file on disk.

        Args:
            path: the file; it is opened.
            deadline: by the event loop's clock.

        Raises:
            ServerGone: the server ended.
        """
        for attempt in range(_ATTEMPTS):
            try:
                document = await self._documents.open(path)
            except OSError as failure:
                reason = f"{path.name} cannot be read: {failure.strerror or failure}"
                return FileDiagnostics(path, None, ()), Freshness(self._name, "unknown", reason)
            answer = await self._of_document(document, deadline)
            if await asyncio.to_thread(disk_text.current_state, path) == document.disk.state:
                break
            if attempt == _ATTEMPTS - 1:
                reason = f"{path.name} changes faster than the server can check it"
                answer = answer[0], Freshness(self._name, "stale", reason)
        return answer

    async def _of_document(self, document: Document, deadline: float) -> Answer:
        if tsserver_diagnostics.passes_requests(self._peer):
            items, freshness = await self._passed_on(document, deadline)
        elif await self._pulls(document, deadline):
            items, freshness = await self._pulled(document, deadline)
        else:
            items, freshness = await self._pushed(document, deadline)
        if freshness.state == "fresh" and not document.disk.encoding:
            reason = f"{document.path.name} is not UTF-8; it was read as Latin-1"
            freshness = Freshness(self._name, "fresh", reason)
        return FileDiagnostics(document.path, document.lines, items), freshness

    async def _passed_on(
        self, document: Document, deadline: float
    ) -> tuple[Sequence[Mapping[str, Any]], Freshness]:
        left_s = max(0.01, deadline - asyncio.get_running_loop().time())
        try:
            items = await tsserver_diagnostics.diagnostics(self._peer, document.path, left_s)
        except (RequestFailed, RequestTimedOut) as failure:
            return self._late(document, str(failure))
        return items, Freshness(self._name, "fresh")

    async def _pulls(self, document: Document, deadline: float) -> bool:
        """Whether the server answers requests for diagnostics; some announce that only after a while."""
        loop = asyncio.get_running_loop()
        while not self._peer.supports(PULL):
            publishes = self._publications.get(document.path) is not None or self._publishes_versions
            if publishes or not self._peer.specification.offers_pull or loop.time() >= deadline:
                return False
            await asyncio.sleep(POLL_S)
        return True

    @property
    def _publishes_versions(self) -> bool:
        return self._peer.specification.changes == "open-documents"

    async def _pulled(
        self, document: Document, deadline: float
    ) -> tuple[Sequence[Mapping[str, Any]], Freshness]:
        last_result = self._results.get(document.path)
        try:
            report = await self._pull(document, last_result, deadline)
            if report is not None and report.items is None and last_result is None:
                report = None  # it says that nothing changed since an answer that it never gave
        except RequestTimedOut as failure:
            return self._last(document), Freshness(self._name, "unknown", str(failure))
        except RequestFailed as failure:
            return self._last(document), Freshness(self._name, "unknown", f"it refused: {failure.message}")
        if report is None:
            return (), Freshness(self._name, "unknown", "its answer is no diagnostic report")
        items = report.items if report.items is not None or last_result is None else last_result.items
        self._remember(document.path, report.result_id, items or ())
        return items or (), Freshness(self._name, "fresh")

    async def _pull(self, document: Document, last_result: _Result | None, deadline: float) -> Report | None:
        params: dict[str, Any] = {"textDocument": {"uri": document.uri}}
        provider = self._peer.capabilities.get("diagnosticProvider")
        identifier = provider.get("identifier") if isinstance(provider, Mapping) else None
        if isinstance(identifier, str):
            params["identifier"] = identifier
        if last_result is not None:
            params["previousResultId"] = last_result.result_id
        left_s = max(0.01, deadline - asyncio.get_running_loop().time())
        answer = await self._peer.request(PULL, params, timeout_s=left_s)
        for path, related in related_reports(answer).items():
            if related.items is not None:
                self._remember(path, related.result_id, related.items)
        return read_report(answer)

    def _remember(self, path: Path, result_id: str | None, items: Sequence[Mapping[str, Any]]) -> None:
        self._results.pop(path, None)
        if result_id is not None:
            self._results[path] = _Result(result_id, items)
            if len(self._results) > MAX_RESULTS:
                self._results.popitem(last=False)

    def forget_results(self) -> None:
        """The server said that what it answered no longer holds."""
        self._results.clear()

    def _last(self, document: Document) -> Sequence[Mapping[str, Any]]:
        result = self._results.get(document.path)
        return () if result is None else result.items

    async def _pushed(
        self, document: Document, deadline: float
    ) -> tuple[Sequence[Mapping[str, Any]], Freshness]:
        if document.epoch != self._documents.epoch:
            # other files have changed since: a new version makes the server check this one again
            document = await self._documents.open(document.path, is_again=True)
        before, path = document.publications_before, document.path

        def is_wanted(publication: Publication) -> bool:
            # another caller may have made a newer version meanwhile
            is_new = publication.number > before and (
                publication.version is None or publication.version >= document.version
            )
            # clangd publishes a version twice: with headers and command as they were, then as they are
            return is_new and not self._publications.is_busy([path])

        left_s = deadline - asyncio.get_running_loop().time()
        first = await self._publications.wait(path, is_wanted, left_s)
        if first is None:
            return self._late(document)
        if first.version is not None and path not in self._documents.recompiled:
            return first.diagnostics, Freshness(self._name, "fresh")
        last, is_last = await self._settled(path, first, deadline)
        if last.version is None:
            reason = "it does not say which version of the file its diagnostics are about"
            return last.diagnostics, Freshness(self._name, "unknown", reason)
        if not is_last:
            return self._late(document)
        self._documents.recompiled.discard(path)
        return last.diagnostics, Freshness(self._name, "fresh")

    async def _settled(
        self, path: Path, publication: Publication, deadline: float
    ) -> tuple[Publication, bool]:
        """The last of the publications that follow each other quickly, and whether no more will follow."""
        loop = asyncio.get_running_loop()
        while (left_s := deadline - loop.time()) > 0:
            later = await self._publications.wait(
                path, partial(_is_after, publication.number), min(SETTLES_S, left_s)
            )
            if later is None and left_s >= SETTLES_S and not self._publications.is_busy([path]):
                return publication, True
            publication = later or publication
        return publication, False

    def _late(
        self, document: Document, failure: str | None = None
    ) -> tuple[Sequence[Mapping[str, Any]], Freshness]:
        status = failure or self._publications.status(document.path)
        doing = f" (it says: {status})" if status else ""
        old = self._publications.get(document.path)
        if old is None:
            reason = f"it has not checked {document.path.name} yet{doing}"
            return (), Freshness(self._name, "unknown", reason)
        reason = f"it has not checked {document.path.name} again since the last change{doing}"
        return old.diagnostics, Freshness(self._name, "stale", reason)


def _is_after(number: int, publication: Publication) -> bool:
    return publication.number > number
