"""Keeps files open in one server, with their text as on disk; the least recently used ones are closed."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Container, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.peer import Peer
from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.tree import disk_text
from lm_tools_bridge.code_intelligence.tree.disk_text import DiskText
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from workspace_server.files.single_flight import LocalFiles

MAX_DOCUMENTS: Final = 200
"""Servers hold each open file with its syntax tree, clangd with all of its headers."""
MAX_TEXT: Final = 64 * 1024 * 1024
"""Characters of all open documents together."""


class Document:
    """One version of an open file. A new version is a new object.

    Attributes:
        path: of the file.
        version: as the server was told.
        disk: the text, and the state of the file when it was read.
        epoch: how many batches of changes on disk the server had been told of when it got this version.
        publications_before: the number of the server's last publication before it got this version.
        memo: what was computed from this version.
    """

    def __init__(
        self, path: Path, version: int, disk: DiskText, epoch: int, publications_before: int
    ) -> None:
        self.path = path
        self.version = version
        self.disk = disk
        self.epoch = epoch
        self.publications_before = publications_before
        self.memo: dict[str, Any] = {}

    @cached_property
    def lines(self) -> Sequence[str]:
        """The lines as LSP counts them."""
        return self.disk.lines()

    @cached_property
    def name(self) -> str:
        """The path as text."""
        return str(self.path)

    @cached_property
    def uri(self) -> str:
        """The file's URI."""
        return to_uri(self.path)


class OpenDocuments:
    """The files that are open in one server.

    Args:
        peer: the server.
        last_publication: the number of the last publication of diagnostics.
        limit: how many files may be open.
        max_text: how many characters they may have together.
    """

    def __init__(
        self,
        peer: Peer,
        last_publication: Callable[[], int] = lambda: 0,
        *,
        limit: int = MAX_DOCUMENTS,
        max_text: int = MAX_TEXT,
    ) -> None:
        self._peer = peer
        self._last_publication = last_publication
        self._limit = limit
        self._max_text = max_text
        self._files = LocalFiles(peer.folders)
        self._open: OrderedDict[Path, Document] = OrderedDict()
        self._last_versions = 0
        self._lock = asyncio.Lock()
        self.epoch = 0
        """Grows with each batch of changes on disk; what was checked before it grew must be checked again."""
        self.recompiled: set[Path] = set()
        """Open files whose compile command may have changed, and that were not checked with the new one yet.

        clangd publishes their next version with the old command, is idle, and publishes it with the new one.
        """

    def __len__(self) -> int:
        return len(self._open)

    def paths(self) -> list[Path]:
        """The open files, the least recently used one first."""
        return list(self._open)

    def get(self, path: Path) -> Document | None:
        """The open document; None if the file is not open."""
        return self._open.get(path)

    async def open(self, path: Path, *, is_again: bool = False) -> Document:
        """Make the server know the file as it is on disk now.

        Args:
            path: the file.
            is_again: make a new version of a file that is open with this text, so that it is checked again.

        Raises:
            OSError: it cannot be read. If it was open, it still is.
            ServerGone: the server ended.
        """
        async with self._lock:
            each = self._open.get(path)
            disk = None if each is None else await self._files.run([path], _disk_if_same, each)
            if disk is None:
                disk = await asyncio.to_thread(disk_text.read_file, path)
            if each is not None and disk.text == each.disk.text and not is_again:
                each.disk = disk
                self._open.move_to_end(path)
                return each
            document = await self._tell(path, disk, each, is_again)
            await self._close_surplus()
            return document

    async def changed_on_disk(self, names: Container[str]) -> tuple[list[str], list[str]]:
        """The open files that changed and those that are gone, without those in `names`."""
        unknown = [document for document in self._open.values() if document.name not in names]
        return await asyncio.to_thread(_changed_and_gone, unknown) if unknown else ([], [])

    def are_in(self, names: Container[str]) -> bool:
        """Whether all open files are among these."""
        return all(document.name in names for document in self._open.values())

    async def empty(self, path: Path) -> Document:
        """Let the server take the file, open or not, for an empty one. Follow this with `close`."""
        async with self._lock:
            disk = DiskText("", "utf-8", (0, 0, 0, 0))
            return await self._tell(path, disk, self._open.get(path))

    async def close(self, path: Path) -> None:
        """Close the file, if it is open."""
        async with self._lock:
            await self._close(path)

    async def _tell(
        self, path: Path, disk: DiskText, former: Document | None, is_again: bool = False
    ) -> Document:
        # versions are never used twice, so that no late message about a closed document fits a new one
        self._last_versions += 1
        document = Document(path, self._last_versions, disk, self.epoch, self._last_publication())
        self._open[path] = document
        self._open.move_to_end(path)
        identity: dict[str, Any] = {"uri": document.uri, "version": document.version}
        if former is None:
            item = {**identity, "languageId": language_of(path, self._peer.specification), "text": disk.text}
            await self._peer.notify("textDocument/didOpen", {"textDocument": item})
        else:
            change: dict[str, Any] = {"textDocument": identity, "contentChanges": [{"text": disk.text}]}
            if self._peer.specification.changes == "open-documents":
                # clangd's extensions: it publishes for exactly this version, even if it sees no reason to
                change |= {"wantDiagnostics": True, "forceRebuild": is_again}
            await self._peer.notify("textDocument/didChange", change)
        return document

    async def _close_surplus(self) -> None:
        size = sum(len(document.disk.text) for document in self._open.values())
        while len(self._open) > 1 and (len(self._open) > self._limit or size > self._max_text):
            path, oldest = next(iter(self._open.items()))
            size -= len(oldest.disk.text)
            await self._close(path)

    async def _close(self, path: Path) -> None:
        self.recompiled.discard(path)
        document = self._open.pop(path, None)
        if document is not None:
            await self._peer.notify("textDocument/didClose", {"textDocument": {"uri": document.uri}})


def language_of(path: Path, specification: ServerSpecification) -> str:
    """The `languageId` of a file; of one that the kind does not know, that of its first language."""
    languages = specification.languages
    language = languages.get(path.name) or languages.get(path.suffix)
    return language or next(iter(languages.values()), "plaintext")


def is_source(path: Path, specification: ServerSpecification) -> bool:
    """Whether the kind knows the file's language."""
    return path.name in specification.languages or path.suffix in specification.languages


def _disk_if_same(document: Document) -> DiskText | None:
    return document.disk if disk_text.current_state(document.path) == document.disk.state else None


def _changed_and_gone(documents: Sequence[Document]) -> tuple[list[str], list[str]]:
    states = [(document, disk_text.current_state(document.path)) for document in documents]
    changed = [str(each.path) for each, state in states if state not in (None, each.disk.state)]
    return changed, [str(each.path) for each, state in states if state is None]
