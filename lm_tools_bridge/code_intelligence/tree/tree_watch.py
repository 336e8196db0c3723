"""Tells several language servers which of a workspace's files changed on disk since each looked last."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.tree.relevant_files import Relevance
from lm_tools_bridge.code_intelligence.tree.tree_changes import Changes, Snapshot, difference
from lm_tools_bridge.code_intelligence.tree.tree_scan import digest
from lm_tools_bridge.code_intelligence.tree.watched_tree import WatchedTree
from workspace_server.files.single_flight import SingleFlight

MAX_DIGESTS: Final = 64
"""Files that changed just before a look, of which the content is read; the others count as changed again."""
FEW_FILES: Final = 2_000
"""Files that are compared in a tenth of a millisecond, about as long as the switch to a thread."""


class TreeWatch:
    """Looks at the folders of a workspace, for all its servers at once. Looks only when asked.

    Args:
        folders: absolute and link-free.
        look: a blocking look at them, in place of `tree`.
        tree: the files below them.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        look: Callable[[Sequence[Path], Relevance], Snapshot] | None = None,
        tree: WatchedTree | None = None,
    ) -> None:
        self._folders = tuple(folders)
        self._look = look
        self._tree = tree or WatchedTree(folders)
        self._relevance = Relevance()
        self._looks = SingleFlight(self._scan)
        self._unsettled: list[str] = []
        self._latest: Snapshot | None = None
        self._watchers = 0
        self._is_closed = False

    def watcher(self, relevance: Relevance) -> Watcher:
        """For one server, until it is closed. What is relevant to any of them is looked at for all."""
        self.include(relevance)
        self._watchers += 1
        return Watcher(self, relevance)

    def include(self, relevance: Relevance) -> None:
        """Look at these files, too, from the next look on."""
        if not relevance <= self._relevance:
            self._relevance |= relevance

    async def snapshot(self) -> Snapshot:
        """The files as they are after this call: the last look where that is proven, else a new one.

        A new one is shared with others who ask at about the same time.
        """
        self._is_closed = False
        latest = self._latest
        if latest is not None and self.is_latest(latest):
            return latest
        return await self._looks.get()

    def is_latest(self, snapshot: Snapshot) -> bool:
        """Whether it is proven, without a look, that the files are as in this snapshot."""
        if snapshot is not self._latest or self._looks.is_running or snapshot.elsewhere:
            return False  # targets of links may be on a disk that hangs: a thread looks at them
        return self._tree.is_unchanged(self._relevance)

    def links_out(self) -> Sequence[str]:
        """The links that lead out of the folders, as of the last look; none before the first."""
        return () if self._latest is None else self._latest.links_out

    async def release(self) -> None:
        """One watcher was closed; after the last one nothing is kept."""
        self._watchers -= 1
        if not self._watchers:
            await self.close()

    async def close(self) -> None:
        """Give everything back until the next look. Waits a moment for one under way, which does it then."""
        self._is_closed = True
        await self._looks.close()
        if self._is_closed and not self._looks.is_running:
            self._give_back()

    def _give_back(self) -> None:
        self._latest = None
        self._tree.close()

    def _scan(self) -> Snapshot:
        try:
            return self._look_now()
        finally:
            if self._is_closed:
                self._give_back()

    def _look_now(self) -> Snapshot:
        self._latest = None
        if self._look is None:
            snapshot = self._tree.look(self._relevance)
        else:
            snapshot = self._look(self._folders, self._relevance)
        unsettled = sorted(snapshot.unsettled())[:MAX_DIGESTS]
        digests = {path: digest(path) for path in (*self._unsettled, *unsettled)}
        self._unsettled = unsettled
        contents = {path: content for path, content in digests.items() if content is not None}
        self._latest = replace(snapshot, digests=contents) if contents else snapshot
        return self._latest


@dataclass(frozen=True, slots=True)
class Look:
    """What a watcher found; `Watcher.accept` makes it the state to compare with."""

    changes: Changes
    snapshot: Snapshot


class Watcher:
    """What changed for one server since the look that it accepted last.

    Attributes:
        relevance: the files that matter to it.
    """

    def __init__(self, watch: TreeWatch, relevance: Relevance) -> None:
        self._watch = watch
        self._accepted: Snapshot | None = None
        self._closed = False
        self.relevance = relevance

    def include(self, relevance: Relevance) -> None:
        """Let these files matter, too; their changes are told from the look after the next on."""
        if not relevance <= self.relevance:
            self.relevance |= relevance
            self._watch.include(relevance)

    def is_current(self) -> bool:
        """Whether it is proven, without a look, that nothing changed since the accepted one."""
        return self._accepted is not None and self._watch.is_latest(self._accepted)

    async def look(self) -> Look:
        """What changed since the accepted look; nothing, if this is the first.

        Raises:
            OSError: a folder of the workspace cannot be looked at.
        """
        after = await self._watch.snapshot()
        before = self._accepted
        if before is None or before is after:
            return Look(Changes(is_cut=after.is_cut), after)
        if len(after.files) + len(before.files) <= FEW_FILES:  # quicker than to switch to a thread
            return Look(self._difference(before, after), after)
        return Look(await asyncio.to_thread(self._difference, before, after), after)

    def accept(self, look: Look) -> None:
        """The server knows of these changes now."""
        self._accepted = look.snapshot

    async def close(self) -> None:
        """The server ended. Idempotent."""
        if not self._closed:
            self._closed = True
            await self._watch.release()

    def _difference(self, before: Snapshot, after: Snapshot) -> Changes:
        return difference(before, after, self.relevance, lambda path: not os.path.lexists(path))
