"""Tells a server which files changed on disk, in the way that its kind takes such changes in."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from lm_tools_bridge.code_intelligence.peer import Peer
from lm_tools_bridge.code_intelligence.tree.documents import OpenDocuments, is_source
from lm_tools_bridge.code_intelligence.tree.tree_changes import ChangeKind, Changes
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri

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
