"""Tells a server which files changed on disk, in the way that its kind takes such changes in.

clangd ignores `workspace/didChangeWatchedFiles`, so each changed file is opened until clangd has published
that version. It updates its index of a file before it publishes the
diagnostics of a version, so the publication proves that later answers are about that version. It keeps what
it knows of a closed file for good, so a deleted file becomes empty first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from lm_tools_bridge.code_intelligence.diagnostics.publications import Publications
from lm_tools_bridge.code_intelligence.peer import Peer
from lm_tools_bridge.code_intelligence.server import ServerGone
from lm_tools_bridge.code_intelligence.tree.documents import Document, OpenDocuments, is_source
from lm_tools_bridge.code_intelligence.tree.tree_changes import ChangeKind, Changes
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from workspace_server import log

_EVENT_TYPES: Final[dict[ChangeKind, int]] = {"created": 1, "changed": 2, "deleted": 3}
MAX_EVENTS: Final = 5_000
"""In one notification; a checkout of more files takes several."""


MAX_OPENED: Final = 50
"""So many files are opened because of one batch of changes; fewer than may be open."""


class ChangeNotice(Protocol):
    """The way in which servers of a kind learn of changes."""

    async def tell(self, changes: Changes) -> None:
        """Tell the server.

        Raises:
            ServerGone: it ended.
        """

    def lagging(self) -> int:
        """How many files it has not taken in yet, as far as it shows that."""

    async def caught_up(self, timeout_s: float) -> None:
        """Wait until nothing lags, at most this long."""

    async def close(self) -> None:
        """End what runs."""


class WatchedFilesNotice:
    """Sends `workspace/didChangeWatchedFiles` with the URI of each file, and new versions of open files."""

    def __init__(self, peer: Peer, documents: OpenDocuments) -> None:
        self._peer = peer
        self._documents = documents

    async def tell(self, changes: Changes) -> None:
        """As `ChangeNotice.tell`."""
        await self._open_documents(changes)
        events = [{"uri": to_uri(Path(path)), "type": _EVENT_TYPES[kind]} for kind, path in changes]
        for start in range(0, len(events), MAX_EVENTS):
            batch: Sequence[object] = events[start : start + MAX_EVENTS]
            await self._peer.notify("workspace/didChangeWatchedFiles", {"changes": batch})

    async def _open_documents(self, changes: Changes) -> None:
        """A server reads an open file from us only, never from disk.

        So files that changed without a new time are opened: some servers compare only that. For a server that
        reads changed files late, all of them are opened.
        """
        unseen = frozenset([*changes.same_time, *self._read_late(changes)][:MAX_OPENED])
        for kind, path in changes:
            file = Path(path)
            if self._documents.get(file) is None and path not in unseen:
                continue
            if kind == "deleted":
                await self._documents.close(file)
                continue
            with suppress(OSError):  # it cannot be read now: the next look tells what became of it
                await self._documents.open(file)

    def _read_late(self, changes: Changes) -> list[str]:
        kind = self._peer.specification
        paths = (*changes.changed, *changes.created) if kind.opens_changed else ()
        return [path for path in paths if is_source(Path(path), kind)]

    def lagging(self) -> int:
        """Servers of this kind show nothing."""
        return 0

    async def caught_up(self, timeout_s: float) -> None:
        """There is nothing to wait for."""

    async def close(self) -> None:
        """Nothing runs."""


AT_ONCE: Final = 16
"""So many files are given to it at a time: less than may be open, so that none is closed before it was read.

The next follow when these were published.
"""
PUBLISH_S: Final = 60.0
"""How long it may take for one file, before the next is given to it."""
QUIET_S: Final = 0.4
"""After a header changed, clangd counts as having taken it in when it was idle for so long.

It publishes the new version of an includer twice: with the header as it was, then as it is.
"""
SETTLE_S: Final = 20.0
"""So long this is waited for; until then answers are said to be stale."""
REREAD_S: Final = 5.5
"""clangd looks at compile_commands.json again when it needs a command and its last look is 5 s old."""
_DATABASES: Final = frozenset({"compile_commands.json", "compile_flags.txt", ".clangd", ".clang-tidy"})
_HEADERS: Final = frozenset({".h", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".ipp", ".def", ".tpp"})


class OpenDocumentsNotice:
    """The changed files that clangd has not read yet, and the task that gives them to it."""

    def __init__(
        self,
        peer: Peer,
        documents: OpenDocuments,
        publications: Publications,
        *,
        publish_s: float = PUBLISH_S,
        reread_s: float = REREAD_S,
        quiet_s: float = QUIET_S,
    ) -> None:
        self._peer = peer
        self._documents = documents
        self._publications = publications
        self._publish_s = publish_s
        self._reread_s = reread_s
        self._quiet_s = quiet_s
        self._waiting: OrderedDict[str, ChangeKind] = OrderedDict()
        self._in_work: dict[str, ChangeKind] = {}
        self._late: dict[Path, int] = {}  # the versions that were not published in time
        self._task: asyncio.Task[None] | None = None
        self._reread_at: float | None = None
        self._gone: ServerGone | None = None

    async def tell(self, changes: Changes) -> None:
        """As `ChangeNotice.tell`; what takes longer goes on behind `lagging`."""
        if self._gone is not None:
            raise self._gone
        for kind, path in changes:
            if kind == "deleted" or is_source(Path(path), self._peer.specification) or _is_header(path):
                self._waiting.pop(path, None)
                self._waiting[path] = kind
        if changes.touches(_DATABASES):
            self._reread_at = asyncio.get_running_loop().time() + self._reread_s
        if self._task is None and (self._waiting or self._reread_at is not None):
            self._task = asyncio.create_task(self._work(), name="clangd-changes")

    def lagging(self) -> int:
        """As `ChangeNotice.lagging`; a compilation database that is to be read again counts as a file."""
        for path in tuple(self._late):
            publication = self._publications.get(path)
            if publication is not None and (publication.version or 0) >= self._late[path]:
                del self._late[path]
        under_way = len(self._waiting) + len(self._in_work) + (self._reread_at is not None)
        return under_way + len(self._late)

    async def caught_up(self, timeout_s: float) -> None:
        """As `ChangeNotice.caught_up`."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=max(0.0, timeout_s))
        if self._gone is not None:
            raise self._gone

    async def close(self) -> None:
        """End the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        try:
            while self._waiting or self._reread_at is not None:
                await self._wave()
                if not self._waiting and self._reread_at is not None:
                    await self._reread(self._reread_at)
        except ServerGone as failure:
            self._gone = failure
        except Exception as fault:  # noqa: BLE001  callers must learn that the files were not read
            log.fault("language_server_changes_failed", fault)
            self._gone = ServerGone("clangd could not be told of changed files")
        finally:
            self._task = None

    async def _wave(self) -> None:
        while self._waiting and len(self._in_work) < AT_ONCE:
            path, kind = self._waiting.popitem(last=False)
            self._in_work[path] = kind
        try:
            async with asyncio.TaskGroup() as group:
                for path, kind in tuple(self._in_work.items()):
                    group.create_task(self._take_in(Path(path), kind))
        except* ServerGone as failures:
            raise ServerGone(str(failures.exceptions[0])) from None
        if any(_is_header(path) for path in self._in_work):
            await self._recheck_includers()
            await self._settled()
        self._in_work.clear()

    async def _take_in(self, path: Path, kind: ChangeKind) -> None:
        self._late.pop(path, None)
        if kind != "deleted":
            with suppress(OSError):  # it went away meanwhile: the next look tells that it is deleted
                await self._published(await self._documents.open(path))
        else:
            await self._published(await self._documents.empty(path))
            await self._documents.close(path)
            self._publications.forget(path)

    async def _published(self, document: Document) -> None:
        publication = await self._publications.wait(
            document.path, lambda each: each.version == document.version, self._publish_s
        )
        if publication is None:
            self._late[document.path] = document.version

    async def _recheck_includers(self) -> None:
        """After `didSave` of any file clangd looks whether the includes of all open ones changed."""
        for path in self._documents.paths()[-1:]:
            document = self._documents.get(path)
            if document is not None:
                identity = {"textDocument": {"uri": document.uri}}
                await self._peer.notify("textDocument/didSave", identity)

    async def _settled(self) -> None:
        """Wait until clangd has been idle for a moment."""
        loop = asyncio.get_running_loop()
        until, idle_since, last_number = loop.time() + SETTLE_S, loop.time(), self._publications.last_number
        while loop.time() < until and loop.time() - idle_since < self._quiet_s:
            await asyncio.sleep(self._quiet_s / 8)
            if self._publications.last_number != last_number or self._publications.is_busy(
                self._documents.paths()
            ):
                idle_since, last_number = loop.time(), self._publications.last_number

    async def _reread(self, at: float) -> None:
        """Let clangd look at its compilation database again: a new version of a file needs its command.

        What was checked until then may have been checked with an old command.
        """
        await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))
        for path in self._documents.paths()[-1:]:
            with suppress(OSError):
                await self._published(await self._documents.open(path, is_again=True))
        self._documents.epoch += 1
        self._documents.recompiled.update(self._documents.paths())
        if self._reread_at == at:
            self._reread_at = None


def _is_header(path: str) -> bool:
    return Path(path).suffix in _HEADERS
